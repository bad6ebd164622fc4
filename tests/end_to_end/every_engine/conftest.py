"""The targets on which the tests of every engine run.

With `programs`, a folder whose `nvidia-smi` reports eight GPUs, a target has one node with them.
"""

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Place
from programs import executable, finished


@contextmanager
def local(folder: Path, programs: Path | None = None) -> Iterator[Place]:
    """Yields this machine."""
    environment = {}
    if programs:  # with its own temporary folder, whatever else runs here
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(programs)}
    yield Place("local", "local", 1, environment=environment)


@contextmanager
def ssh(folder: Path, programs: Path | None = None) -> Iterator[Place]:
    """Starts three hosts, each with a real sshd."""
    from fairway_simulator.ssh.cluster import SshCluster, missing

    _require(missing())
    names = ["n1", "n2", "n3"]
    more: dict[str, str] = {}
    if programs:
        names, more = ["n1"], {"path": f"{programs}:{Path(sys.executable).parent}"}
    with SshCluster(folder, names, name="pair", **more) as cluster:
        project = json.dumps({"targets": [cluster.target()]})
        yield Place("pair", "ssh", len(names), project, cluster.environment)


@contextmanager
def slurm(folder: Path, programs: Path | None = None) -> Iterator[Place]:
    """Starts a real Slurm of three nodes, behind a real sshd."""
    from fairway_simulator.slurm import SlurmCluster, missing

    _require(missing())
    nodes, gpus = (1, 8) if programs else (3, 0)
    with SlurmCluster(nodes=nodes, gpus=gpus, shared=folder / "shared") as cluster:
        for program in programs.iterdir() if programs else ():
            # This folder is in the PATH of the nodes, too.
            executable(cluster.folder / "home" / "bin" / program.name, f'exec {program} "$@"')
        project = json.dumps({"targets": [cluster.target]})
        yield Place("slurm-sim", "slurm", nodes, project, cluster.environment)


@contextmanager
def batch(folder: Path, programs: Path | None = None) -> Iterator[Place]:
    """Starts a pool of the stand-in for Azure Batch, with Azurite beside it. Its nodes lie outside
    pytest's folders, which the account that `fairway exec` uses there cannot read."""
    from fairway_simulator.batch import BatchSimulator
    from fairway_simulator.batch.azurite import AzuriteMissing
    from fairway_simulator.batch.simulator import IDENTITY

    nodes_folder = Path(tempfile.mkdtemp(prefix="fairway-pool-"))
    data = nodes_folder / "data"
    data.mkdir()
    nodes_folder.chmod(0o711)
    data.chmod(0o1777)
    nodes = 1 if programs else 3
    slots: dict[str, Any] = {}
    target: dict[str, Any] = {
        "name": "pool",
        "engine": "batch",
        "nodes": {"min": 0, "max": 4},
        "mounts": {"data": str(data)},
        "storage": {"containers": ["datasets", "outputs", "code"]},
        "batch": {"pool": "sim", "identity": IDENTITY},
    }
    if programs:
        slots = {"slots": 8, "inter_node": False}
        target |= {"vm_size": "Standard_ND96isr_H100_v5", "nodes": {"min": 0, "max": 1}}
        target["batch"] |= {"mpi": False, "task_slots": 8}
    with pytest.MonkeyPatch.context() as patch:
        if programs:  # nodes that boot later find them too
            patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        mounts = (folder.parent,)  # where tests have their pipes
        service = BatchSimulator(
            nodes_folder / "pool", nodes=nodes, storage=True, mounts=mounts, **slots
        )
        try:
            service.start()
        except AzuriteMissing as missing:
            _require(f"no Azurite: {missing}")
        try:
            yield Place(
                "pool",
                "batch",
                nodes,
                json.dumps({"targets": [target]}),
                service.environment(),
                has_mpi=os.geteuid() == 0,
                lead_to=service.lead_nodes_to,
            )
        finally:
            service.stop()
            shutil.rmtree(nodes_folder, ignore_errors=True)


@contextmanager
def kubernetes(folder: Path, programs: Path | None = None) -> Iterator[Place]:
    """Starts a cluster of three nodes whose API server is a stand-in and whose pods are processes,
    or uses the cluster that FAIRWAY_KUBECONFIG names, in a new namespace."""
    from fairway_simulator.kubernetes import KubernetesCluster, NodeSpec, missing

    if programs is None and (named := os.environ.get("FAIRWAY_KUBECONFIG")):
        with _prepared(folder, Path(named), f"fairway-tests-{secrets.token_hex(4)}") as place:
            yield place
        return
    _require(missing())
    more: dict[str, Any] = {"nodes": 3, "private": False}
    if programs:
        held = {"cpu": "25", "memory": "136Gi", "nvidia.com/gpu": "8"}
        more = {"nodes": [NodeSpec("sim-0", held)], "path": str(programs)}
    with (
        KubernetesCluster(folder / "cluster", **more) as cluster,
        _prepared(folder, cluster.kubeconfig, cluster.namespace, 1 if programs else 3) as place,
    ):
        yield place


@contextmanager
def _prepared(folder: Path, kubeconfig: Path, namespace: str, nodes: int = 3) -> Iterator[Place]:
    """Prepares a namespace with a head pod, whose pods see the tests' folders at the same paths."""
    from fairway_core.kubernetes import documents, head
    from fairway_core.target import Target
    from fairway_simulator.kubernetes.cluster import kubectl_program

    environment = {"KUBECONFIG": str(kubeconfig)}

    def kubectl(*words: str, stdin: str = "") -> str:
        done = finished([kubectl_program(), *words], env={**os.environ, **environment}, input=stdin)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    # Pods see the tests' folders only through this mount, as they would any others.
    tests = folder.parent
    target = {
        "name": "k8s",
        "engine": "kubernetes",
        "nodes": {"min": nodes, "max": nodes},
        "mounts": {"tests": str(tests)},
        "kubernetes": {
            "context": kubectl("config", "current-context").strip(),
            "namespace": namespace,
            "image": "sim:1",
            "head_image": "sim-head:1",
            "shared": str(folder / "fairway"),
            "volumes": {"tests": "tests"},
            "resources": {"cpu": "24", "memory": "128Gi", "nvidia.com/gpu": "8"},
        },
    }
    volume = f"{namespace}-tests"
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {"capacity": size, "accessModes": modes, "hostPath": {"path": str(tests)}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "tests", "namespace": namespace},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": volume,
            },
        },
    ]
    made += head.objects(Target.model_validate(target))
    kubectl("apply", "-f", "-", stdin=documents.text(made))
    kubectl("rollout", "status", "deployment/fairway-head", "--namespace", namespace)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    project = json.dumps({"targets": [target]})
    yield Place("k8s", "kubernetes", nodes, project, {**environment, "PATH": path})
    if namespace != "default":  # the stand-in's cluster is removed with its namespace
        kubectl(
            "delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=documents.text(made)
        )


def _require(lacking: str) -> None:
    """Skips the tests if something is missing, which is a failure in CI."""
    if lacking:
        pytest.skip(lacking)


PLACES = {"local": local, "ssh": ssh, "slurm": slurm, "batch": batch, "kubernetes": kubernetes}


@pytest.fixture(scope="session", params=PLACES)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A target, shared by all tests of the session."""
    with PLACES[request.param](tmp_path_factory.mktemp(request.param)) as place:
        yield place


@pytest.fixture
def place(running: Place, fairway: Fairway, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The target, declared in the test's folder."""
    declare(running, fairway, monkeypatch)
    return running


def declare(place: Place, fairway: Fairway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes the project file of a target, and sets its variables."""
    if place.project:
        (fairway.folder / "fairway.yaml").write_text(place.project)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)


# All GPUs but the first are busy, unless there is a file `idle` beside the program. In a container
# with the files of some devices, only these exist, numbered from 0.
SMI = """#!/bin/sh
index=0
for n in 0 1 2 3 4 5 6 7; do
    if ls /dev/nvidia[0-9] >/dev/null 2>&1 && ! [ -e /dev/nvidia$n ]; then continue; fi
    case "$*" in
    *index,pci.bus_id*) echo "$index, 0000ff0$n:00:00.0" ;;
    *index,utilization.gpu,*)
        test $n = 0 && busy=0 || busy=97
        test $n != 0 && test -e "${0%/*}/idle" && busy=4
        echo "$index, $busy, 10, 80000, 60.5" ;;
    *) exit 9 ;;
    esac
    index=$((index + 1))
done
case "$*" in *index,utilization.gpu,*) exec sleep 600 ;; esac
"""


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """The folder of the fake `nvidia-smi`."""
    folder = tmp_path / "smi"
    folder.mkdir()
    executable(folder / "nvidia-smi", SMI)
    return folder


@pytest.fixture(params=PLACES)
def node(
    request: pytest.FixtureRequest, fairway: Fairway, smi: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A target with one node, which has eight GPUs."""
    # Beside the project, whose code is copied while files come and go there.
    folder = fairway.folder.with_name(f"{fairway.folder.name}-{request.param}")
    with PLACES[request.param](folder, smi) as place:
        declare(place, fairway, monkeypatch)
        yield place
