"""The targets over which the tests of every engine run."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Fairway


@dataclass(frozen=True)
class Place:
    """A target that is there: its name, the `fairway.yaml` that declares it, the variables that
    commands need, and what can be expected of it."""

    name: str
    engine: str
    nodes: int
    project: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    has_mpi: bool = True
    lead_to: Callable[[int], None] = lambda _: None
    """Lets its nodes reach what listens at that port of this machine."""

    @staticmethod
    def new_id(name: str) -> str:
        """A run's id that no other test has."""
        return f"{name}-{secrets.token_hex(4)}"


@contextmanager
def local(folder: Path) -> Iterator[Place]:
    """This machine."""
    yield Place("local", "local", nodes=1)


@contextmanager
def ssh(folder: Path) -> Iterator[Place]:
    """Three hosts, each with a real sshd."""
    from fairway_simulator.ssh.cluster import SshCluster, missing

    _require(missing())
    with SshCluster(folder, ["n1", "n2", "n3"], name="pair") as cluster:
        project = json.dumps({"targets": [cluster.target()]})
        yield Place("pair", "ssh", 3, project, cluster.environment)


@contextmanager
def slurm(folder: Path) -> Iterator[Place]:
    """A real Slurm of three nodes, behind a real sshd."""
    from fairway_simulator.slurm import SlurmCluster, missing

    _require(missing())
    with SlurmCluster(nodes=3, shared=folder / "shared") as cluster:
        project = json.dumps({"targets": [cluster.target]})
        yield Place("slurm-sim", "slurm", 3, project, cluster.environment)


@contextmanager
def batch(folder: Path) -> Iterator[Place]:
    """A pool of the stand-in for Azure Batch, with Azurite beside it."""
    from fairway_simulator.batch import BatchSimulator
    from fairway_simulator.batch.azurite import AzuriteMissing
    from fairway_simulator.batch.simulator import IDENTITY

    data = folder.with_name(f"{folder.name}-data")
    data.mkdir()
    data.chmod(0o1777)
    service = BatchSimulator(folder, nodes=3, storage=True)
    try:
        service.start()
    except AzuriteMissing as missing:
        _require(f"no Azurite: {missing}")
    target = {
        "name": "pool",
        "engine": "batch",
        "nodes": {"min": 0, "max": 4},
        "mounts": {"data": str(data)},
        "storage": {"containers": ["datasets", "outputs", "code"]},
        "batch": {"pool": "sim", "identity": IDENTITY},
    }
    try:
        project = json.dumps({"targets": [target]})
        yield Place(
            "pool",
            "batch",
            3,
            project,
            service.environment(),
            has_mpi=os.geteuid() == 0,
            lead_to=service.lead_nodes_to,
        )
    finally:
        service.stop()


@contextmanager
def kubernetes(folder: Path) -> Iterator[Place]:
    """A cluster of three nodes whose API server is a stand-in, and whose pods are processes; or
    that which FAIRWAY_KUBECONFIG names, with its own nodes, in a namespace of its own there."""
    from fairway_simulator.kubernetes import KubernetesCluster, missing

    if named := os.environ.get("FAIRWAY_KUBECONFIG"):
        with _prepared(folder, Path(named), f"fairway-tests-{secrets.token_hex(4)}") as place:
            yield place
        return
    _require(missing())
    with (
        KubernetesCluster(folder / "cluster", nodes=3, private=False) as cluster,
        _prepared(folder, cluster.kubeconfig, cluster.namespace) as place,
    ):
        yield place


@contextmanager
def _prepared(folder: Path, kubeconfig: Path, namespace: str) -> Iterator[Place]:
    """A namespace with a head pod, whose pods see the tests' own folders at the same paths."""
    from fairway_core.kubernetes import documents, head
    from fairway_core.target import Target
    from fairway_simulator.kubernetes.cluster import kubectl_program

    environment = {"KUBECONFIG": str(kubeconfig)}

    def kubectl(*words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [kubectl_program(), *words],
            env={**os.environ, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    # Of the tests' own folders pods see what is mounted, as of any others.
    tests = folder.parent
    target = {
        "name": "k8s",
        "engine": "kubernetes",
        "nodes": {"min": 3, "max": 3},
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
    yield Place("k8s", "kubernetes", 3, project, {**environment, "PATH": path})
    if namespace != "default":  # with the stand-in all goes
        kubectl(
            "delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=documents.text(made)
        )


def _require(lacking: str) -> None:
    """Leaves the tests out where something is missing, but not where all has to be there."""
    if lacking:
        pytest.skip(lacking)


PLACES = {"local": local, "ssh": ssh, "slurm": slurm, "batch": batch, "kubernetes": kubernetes}


@pytest.fixture(scope="session", params=PLACES)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A target, for as long as tests want it."""
    with PLACES[request.param](tmp_path_factory.mktemp(request.param)) as place:
        yield place


@pytest.fixture
def place(running: Place, fairway: Fairway, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The target, declared in the test's folder."""
    if running.project:
        (fairway.folder / "fairway.yaml").write_text(running.project)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running
