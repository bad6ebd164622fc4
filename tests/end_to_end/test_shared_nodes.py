"""Several tasks on one node: each has its own GPU, whatever else is there.

The node has eight GPUs by a program `nvidia-smi` of the test's own. Tasks say through a pipe what
they have, and wait at a gate, so that it is known which of them run at the same time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Fairway, Gate, Pipe

# All GPUs but the first are busy, unless there is a file `idle` beside the program. In a container
# that has files of some devices these are all, and are counted anew.
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
PATIENCE = 300.0
# What a task says: `up` with all that it has, and `down` before it ends.
PROGRAM = """
import json, os, sys
names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "FAIRWAY_GPUS",
         "FAIRWAY_CORES", "FAIRWAY_PORTS", "FAIRWAY_MAIN_PORT", "FAIRWAY_SCRATCH_DIR")
has = {name: os.environ.get(name) for name in names}
has |= {"task": os.environ["FAIRWAY_TASK"], "cores": sorted(os.sched_getaffinity(0))}
has["scratch"] = os.listdir(has["FAIRWAY_SCRATCH_DIR"])
open(os.path.join(has["FAIRWAY_SCRATCH_DIR"], "mine"), "w").close()
def say(line):
    pipe = os.open(sys.argv[1], os.O_WRONLY)
    os.write(pipe, line.encode() + b"\\n")
    os.close(pipe)
say("up " + json.dumps(has))
os.read(os.open(sys.argv[2], os.O_RDONLY), 3)
assert os.listdir(has["FAIRWAY_SCRATCH_DIR"]) == ["mine"]
say("down " + json.dumps(has))
"""


@pytest.fixture
def pipe(pipe: Pipe) -> Iterator[Pipe]:
    """A pipe that does not end when no task has it open."""
    held = os.open(pipe.path, os.O_WRONLY)
    yield pipe
    os.close(held)


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """The folder of the program."""
    folder = tmp_path / "smi"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    return folder


@contextmanager
def _local(smi: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PATH", f"{smi}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(smi))  # whatever else runs here
    yield "local"


@contextmanager
def _ssh(smi: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from fairway_simulator.ssh.cluster import SshCluster, missing

    if lacking := missing():
        pytest.skip(lacking)
    path = f"{smi}:{Path(sys.executable).parent}"
    with SshCluster(smi.parent / "cluster", ["n1"], path=path) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target()]})
        (smi.parent / "fairway.yaml").write_text(project)
        yield "pair"


@contextmanager
def _slurm(smi: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from fairway_simulator.slurm import SlurmCluster, missing

    if lacking := missing():
        pytest.skip(lacking)
    with SlurmCluster(nodes=1, gpus=8) as cluster:
        # Its nodes, too, have what is in this folder in their PATH.
        found = cluster.folder / "home" / "bin" / "nvidia-smi"
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(f'#!/bin/sh\nexec {smi}/nvidia-smi "$@"\n')
        found.chmod(0o755)
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target]})
        (smi.parent / "fairway.yaml").write_text(project)
        yield cluster.target["name"]


@contextmanager
def _batch(smi: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from fairway_simulator.batch import BatchSimulator
    from fairway_simulator.batch.azurite import program
    from fairway_simulator.batch.simulator import IDENTITY

    if program() is None:
        pytest.skip("Azurite is missing: npm install --prefix .venv/azurite azurite")
    monkeypatch.setenv("PATH", f"{smi}:{os.environ['PATH']}")
    data = smi.parent.with_name(f"{smi.parent.name}-data")
    data.mkdir()
    data.chmod(0o1777)
    target = {
        "name": "batch-sim",
        "engine": "batch",
        "vm_size": "Standard_ND96isr_H100_v5",
        "nodes": {"min": 0, "max": 1},
        "mounts": {"data": str(data)},
        "storage": {"containers": ["datasets", "outputs", "code"]},
        "batch": {"pool": "sim", "identity": IDENTITY, "mpi": False, "task_slots": 8},
    }
    # Beside the project, whose code is copied while files come and go there.
    folder = smi.parent.with_name(f"{smi.parent.name}-service")
    with BatchSimulator(folder, nodes=1, slots=8, inter_node=False, storage=True) as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        (smi.parent / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
        yield "batch-sim"


@contextmanager
def _kubernetes(smi: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from fairway_core.kubernetes import documents, head
    from fairway_core.target import Target
    from fairway_simulator.kubernetes import KubernetesCluster, NodeSpec, missing

    if lacking := missing():
        pytest.skip(lacking)
    tests = smi.parent.parent  # which pods see where it is
    folder = smi.parent.with_name(f"{smi.parent.name}-cluster")
    target = {
        "name": "kubernetes-sim",
        "engine": "kubernetes",
        "nodes": {"min": 1, "max": 1},
        "mounts": {"tests": str(tests)},
        "kubernetes": {
            "context": "kubernetes-sim",
            "image": "sim:1",
            "head_image": "sim:1",
            "shared": str(folder / "fairway"),
            "volumes": {"tests": "tests"},
            "resources": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"},
        },
    }
    node = NodeSpec("sim-0", {"cpu": "9", "memory": "72Gi", "nvidia.com/gpu": "8"})
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    about: dict[str, Any] = {"apiVersion": "v1", "metadata": {"name": "tests"}}
    there = {"capacity": size, "accessModes": modes, "hostPath": {"path": str(tests)}}
    asked = {"accessModes": modes, "resources": {"requests": size}, "volumeName": "tests"}
    volume = {**about, "kind": "PersistentVolume", "spec": there}
    claim = {**about, "kind": "PersistentVolumeClaim", "spec": asked}
    made = documents.text(head.objects(Target.model_validate(target)))
    with KubernetesCluster(folder, nodes=[node], path=str(smi)) as cluster:
        for each in (json.dumps(volume), json.dumps(claim), made):
            cluster.kubectl("apply", "-f", "-", stdin=each)
        cluster.kubectl("rollout", "status", "deployment/fairway-head")
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        (smi.parent / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
        yield "kubernetes-sim"


ENGINES = {
    "local": _local,
    "ssh": _ssh,
    "slurm": _slurm,
    "batch": _batch,
    "kubernetes": _kubernetes,
}


QUEUED = ("slurm-sim", "batch-sim", "kubernetes-sim")
"""Targets whose service has a queue of its own, and starts a task when there is room for it."""


@pytest.fixture(params=ENGINES)
def target(
    request: pytest.FixtureRequest, smi: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A target with one node."""
    with ENGINES[request.param](smi, monkeypatch) as name:
        yield name


def sweep(fairway: Fairway, pipe: Pipe, gate: Gate, tasks: int, **fields: Any) -> Path:
    """A job of `tasks` tasks."""
    (fairway.folder / "program.py").write_text(PROGRAM)
    points = {"points": {"grid": {"x": list(range(tasks))}}}
    command = f"python3 program.py {pipe.path} {gate.path} {{{{ params.x }}}}"
    return fairway.job(command, template="plain", sweep=points, **fields)


def said(pipe: Pipe, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Lines of the tasks: what each did, and what it has."""
    lines = [line.partition(" ") for line in pipe.lines(count)]
    return [(word, json.loads(facts)) for word, _, facts in lines]


def test_twelve_tasks_of_one_gpu_on_a_node_of_eight(
    fairway: Fairway, target: str, pipe: Pipe, gate: Gate
) -> None:
    """Eight at a time, none of which has what another has. The ninth begins when one of them has
    ended, on its GPU, and so on: none waits until all eight have ended."""
    job = sweep(fairway, pipe, gate, 12, gpus=1)
    run = fairway.submit(job, "--target", target)
    first = said(pipe, 8)
    assert [word for word, _ in first] == ["up"] * 8
    assert sorted(has["FAIRWAY_GPUS"] for _, has in first) == list("01234567")
    shown = fairway.show(run)
    running = [task for task in shown["task_list"] if task["state"] == "running"]
    assert sorted(task["gpus"] for task in running) == list("01234567")
    assert len(running) == 8
    assert "GPUS" in fairway.within("show", run).stdout
    gate.open()
    (down, ended), (up, ninth) = said(pipe, 10)[8:]
    assert (down, up) == ("down", "up")
    assert ninth["FAIRWAY_GPUS"] == ended["FAIRWAY_GPUS"]
    gate.open(3)
    assert sorted(word for word, _ in said(pipe, 16)[10:]) == ["down"] * 3 + ["up"] * 3
    gate.open(8)
    lines = said(pipe, 24)
    assert fairway.within("wait", run).returncode == 0
    busy: dict[str, str] = {}
    most = 0
    own = ["FAIRWAY_GPUS", "FAIRWAY_SCRATCH_DIR"]
    if target != "kubernetes-sim":  # pods have addresses of their own, and all ports of these
        own.append("FAIRWAY_PORTS")
    for word, has in lines:
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            # A container on Kubernetes has no others, and counts its own anew.
            assert has[name] == ("0" if target == "kubernetes-sim" else has["FAIRWAY_GPUS"])
        assert has["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert has["scratch"] == [], "a folder of its own"
        port, ports = int(has["FAIRWAY_MAIN_PORT"]), has["FAIRWAY_PORTS"].split("-")
        assert int(ports[0]) <= port <= int(ports[1])
        for thing in (has[name] for name in own):
            if word == "up":
                assert thing not in busy, f"{has} while {busy}"
                busy[thing] = has["task"]
            else:
                assert busy.pop(thing) == has["task"]
        most = max(most, len(busy))
    assert most == 8 * len(own)
    assert not busy
    ended = fairway.show(run)
    assert {task["state"] for task in ended["task_list"]} == {"succeeded"}
    assert all(task["gpus"] for task in ended["task_list"])


@pytest.mark.parametrize("target", [name for name in ENGINES if name != "ssh"], indirect=True)
def test_two_runs_share_the_node(fairway: Fairway, target: str, pipe: Pipe, gate: Gate) -> None:
    """The second has what the first leaves, says what it waits for, and one more when that ends."""
    fairway.submit(sweep(fairway, pipe, gate, 1, gpus=6), "--target", target)
    assert said(pipe, 1)[0][1]["FAIRWAY_GPUS"] == "0,1,2,3,4,5"
    fairway.submit(sweep(fairway, pipe, gate, 1, gpus=2), "--target", target)
    assert said(pipe, 2)[1][1]["FAIRWAY_GPUS"] == "6,7"
    third = fairway.submit(sweep(fairway, pipe, gate, 1, gpus=1), "--target", target)
    waits = fairway.show_waiting(third)
    assert waits["state"] == "queued"
    assert target in QUEUED or "waits for 1 GPU of" in waits["reason"]
    gate.open()
    *_, (word, has) = said(pipe, 4)
    assert (word, has["FAIRWAY_GPUS"]) in (("up", "0"), ("up", "6"))
    gate.open(2)
    assert fairway.within("wait", third).returncode == 0


@pytest.mark.parametrize("target", ["ssh"], indirect=True)
def test_the_node_of_a_plain_cluster_has_one_run_at_a_time(
    fairway: Fairway, target: str, pipe: Pipe, gate: Gate
) -> None:
    """A second one waits, though GPUs are free, and has the node when the first has ended."""
    first = fairway.submit(sweep(fairway, pipe, gate, 2, gpus=1), "--target", target)
    assert sorted(has["FAIRWAY_GPUS"] for _, has in said(pipe, 2)) == ["0", "1"]
    second = fairway.submit(sweep(fairway, pipe, gate, 1, gpus=1), "--target", target)
    waits = fairway.show_waiting(second)
    assert waits["reason"] == f"waits for 1 GPU of a node: 0 free of 1 that are up; {first} uses 1"
    gate.open(2)
    *_, (word, has) = said(pipe, 5)
    assert (word, has["FAIRWAY_GPUS"]) == ("up", "0")
    gate.open()
    assert fairway.within("wait", second).returncode == 0


def test_cores_alone(fairway: Fairway, target: str, pipe: Pipe, gate: Gate) -> None:
    """No GPU, and only what else a node has."""
    # Of these nodes each has eight, which they do not keep their tasks on.
    is_pinned = target not in ("slurm-sim", "kubernetes-sim")
    cores = sorted(os.sched_getaffinity(0)) if is_pinned else list(range(8))
    cores = cores[:8]  # as many task slots as the node of Batch has
    run = fairway.submit(sweep(fairway, pipe, gate, len(cores), cores=1), "--target", target)
    has = [facts for _, facts in said(pipe, len(cores))]
    if is_pinned:
        assert sorted(facts["cores"] for facts in has) == [[core] for core in cores]
    assert {facts["CUDA_VISIBLE_DEVICES"] for facts in has} == {""}
    gate.open(len(cores))
    assert fairway.within("wait", run).returncode == 0
    assert {task["gpus"] for task in fairway.show(run)["task_list"]} == {""}


def supervisors(fairway: Fairway, run: str, target: str) -> list[int]:
    """The processes that watch over a run; on a host also the one that would end its tasks when
    that is killed, so that only the next run can."""
    if target == "local":
        return [fairway.record(run)["supervisor"]]
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fairway_agent.ssh.supervise" in words and any(run.encode() in each for each in words):
            found.append(int(entry.name))
    assert found
    return found


@pytest.mark.parametrize("target", ["local", "ssh"], indirect=True)  # Slurm watches its own jobs
def test_a_supervisor_that_is_killed_holds_nothing(
    fairway: Fairway, target: str, pipe: Pipe, gate: Gate
) -> None:
    """The next run has its GPUs once its tasks are gone."""
    run = fairway.submit(sweep(fairway, pipe, gate, 8, gpus=1), "--target", target)
    said(pipe, 8)
    for pid in supervisors(fairway, run, target):
        os.kill(pid, signal.SIGKILL)
    second = fairway.submit(sweep(fairway, pipe, gate, 1, gpus=8), "--target", target)
    *_, (word, has) = said(pipe, 9)
    assert (word, has["FAIRWAY_GPUS"]) == ("up", "0,1,2,3,4,5,6,7")
    gate.open()
    assert fairway.within("wait", second).returncode == 0


def test_more_than_the_node_has(fairway: Fairway, target: str, pipe: Pipe, gate: Gate) -> None:
    """Refused where that is known before, and else when the task would start."""
    job = sweep(fairway, pipe, gate, 1, gpus=9)
    done = fairway("submit", job, "--target", target, "--watch")
    if target in ("local", "batch-sim", "kubernetes-sim"):
        assert done.returncode == 2
        assert f"a task needs 9 GPUs, and a node of `{target}` has 8" in done.stderr
        assert "set gpus to at most 8" in done.stderr
    elif target == "slurm-sim":
        assert done.returncode == 2
        assert "needs 9 GPUs, and Slurm knows of 8 GPUs a node in the partition" in done.stderr
    else:
        assert done.returncode not in (0, 2)
        [run] = [each.name for each in (fairway.folder / ".fairway" / "runs").glob("job-*")]
        facts = fairway.show(run)
        assert facts["state"] == "failed"
        assert "it needs 9 GPUs, and the node has 8 GPUs" in facts["reason"]
        assert facts["task_list"][0]["state"] == "failed"


IDLE = {"below": 5, "for": "1s"}
WHY = "its GPUs were below 5 % for 1s"


def test_a_run_whose_gpus_do_nothing_is_ended(
    fairway: Fairway, target: str, smi: Path, pipe: Pipe
) -> None:
    """Whatever it has left of its attempts."""
    (smi / "idle").touch()
    held = f"echo up; exec 9>{pipe.path}; sleep 600"
    fields = {"retries": 3, "sample_every": "0.5s", "idle_gpu": IDLE}
    job = fairway.job(held, template="plain", **fields)
    done = fairway("submit", job, "--target", target, "--watch", "--json")
    assert done.returncode == 124, done.stderr
    facts = fairway.show(json.loads(done.stdout)["run_id"])
    assert (facts["state"], facts["reason"]) == ("failed", WHY)
    [task] = facts["task_list"]
    assert (task["exit_code"], task["reason"], task["attempts"]) == (124, WHY, 1)
    assert fairway.within("logs", facts["run_id"]).stdout.splitlines()[:2] == [
        "up",
        f"fairway: {WHY}",
    ]


def test_of_two_tasks_on_a_node_the_one_that_does_nothing_is_ended(
    fairway: Fairway, target: str, pipe: Pipe, gate: Gate
) -> None:
    job = sweep(fairway, pipe, gate, 2, gpus=1, sample_every="0.5s", idle_gpu=IDLE)
    if target == "slurm-sim":
        refused = fairway("submit", job, "--target", target)
        assert refused.returncode == 2
        assert "cannot tell which of a node's GPUs are idle" in refused.stderr
        return
    run = fairway.submit(job, "--target", target)
    tasks = said(pipe, 2)
    idle = next(has["task"] for _, has in tasks if has["FAIRWAY_GPUS"] == "0")
    deadline = time.monotonic() + PATIENCE
    while (found := fairway.show(run))["task_states"].get("failed") != 1:
        assert time.monotonic() < deadline, found
    gate.open()
    assert fairway.within("wait", run).returncode == 124
    facts = fairway.show(run)
    ended = {str(task["task"]): (task["state"], task["reason"]) for task in facts["task_list"]}
    assert ended.pop(idle) == ("failed", WHY)
    assert list(ended.values()) == [("succeeded", None)]


def test_a_run_whose_gpus_do_nothing_is_warned_of(
    fairway: Fairway, target: str, smi: Path, pipe: Pipe, gate: Gate
) -> None:
    (smi / "idle").touch()
    held = f"echo up >{pipe.path}; read -r _ <{gate.path}"
    warn = {**IDLE, "then": "warn"}
    job = fairway.job(held, template="plain", sample_every="0.5s", idle_gpu=warn)
    run = fairway.submit(job, "--target", target)
    assert pipe.lines(1) == ["up"]
    deadline = time.monotonic() + PATIENCE
    while (task := fairway.show(run)["task_list"][0])["reason"] != WHY:
        assert time.monotonic() < deadline, task
    gate.open()
    assert fairway.within("wait", run).returncode == 0
    assert fairway.within("logs", run).stdout == f"fairway: {WHY}\n"
    assert fairway.show(run)["task_list"][0]["reason"] is None
