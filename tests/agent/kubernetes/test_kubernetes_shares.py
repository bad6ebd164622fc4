"""A task's pods: the share of a node that a pod has, and the signal to all of them."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairway_agent import scratch
from fairway_agent.kubernetes.pod import PodNodes, with_share
from fairway_agent.machine import Host
from fairway_agent.resources import ResourceRequest
from fairway_agent.spec import IdleGpu, RunPlan, TaskSpec
from fairway_agent.task import attempts
from fairway_agent.task.task import Task

NODE = Host("nd-0", "10.0.0.7")


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """Returns a folder with the files of three devices, and others beside them."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidia3", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (folder / name).touch()
    return folder


def task(tmp_path: Path, host: Host, **spec: Any) -> Task:
    run = tmp_path / "run"
    (run / "tasks" / "4").mkdir(parents=True)
    idle = IdleGpu(below=5.0, seconds=60.0, then="cancel")
    plan = RunPlan("r", str(tmp_path), idle_gpu=idle, sample_every=1.0)
    folder = run / "tasks" / "4"
    return Task(plan, TaskSpec(4, **spec), run, folder, nodes=PodNodes(), hosts=[host])


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [
        pytest.param(ResourceRequest(gpus=3), (2, 3, 10), id="numbers of the node"),
        # A container that sees devices of others, or none by these names.
        pytest.param(ResourceRequest(gpus=2), (0, 1), id="other files than its own"),
        pytest.param(ResourceRequest(cores=2), (), id="none"),
    ],
)
def test_kubernetes_share_gpus_are_those_of_the_device_files(
    devices: Path, wanted: ResourceRequest, gpus: Sequence[int]
) -> None:
    found = with_share(NODE, wanted, 0.25, devices).share
    assert (found.gpus, found.node_fraction) == (gpus, 0.25)


def test_kubernetes_share_has_own_cores_only_if_the_pod_is_pinned(
    devices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The static policy of the kubelet's CPU manager pins a pod."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 4})
    assert with_share(NODE, ResourceRequest(cores=2), 0.25, devices).share.cores == (4, 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})
    assert with_share(NODE, ResourceRequest(cores=2), 0.25, devices).share.cores == ()


def test_kubernetes_share_numbers_gpus_from_zero_and_sets_omp_threads(
    tmp_path: Path, devices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_FAIRWAY_CPUS", "30")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    mine = task(
        tmp_path, with_share(NODE, ResourceRequest(gpus=3), 0.375, devices), processes_per_node=3
    )
    found = attempts.contract(mine)
    assert found["CUDA_VISIBLE_DEVICES"] == found["ROCR_VISIBLE_DEVICES"] == "0,1,2"
    assert found["FAIRWAY_GPUS"] == "2,3,10"
    assert found["FAIRWAY_PORTS"] == "10000-32767"
    # `nproc` and PyTorch would count all processors of the node.
    assert found["OMP_NUM_THREADS"] == "10"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert attempts.contract(mine)["OMP_NUM_THREADS"] == "2"


def test_kubernetes_share_tasks_on_one_node_have_separate_samples(
    tmp_path: Path, devices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees only its own GPUs, counted from 0 like those of the others; a task with the entire
    node gets no such variables."""
    for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("_FAIRWAY_NODE", NODE.name)
    mine = task(tmp_path, with_share(NODE, ResourceRequest(gpus=3), 0.375, devices))
    whole = replace(mine, hosts=[NODE])
    for each, name in ((mine, "nd-0.4"), (whole, "nd-0")):
        assert each.nodes.sampling(each, {}).environment["_FAIRWAY_NODE"] == name
        watch = attempts.idle_watch(each)
        assert (watch.nodes, watch.gpus) == ([name], None)
    told = attempts.contract(whole).keys()
    assert not {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "FAIRWAY_GPUS"} & told


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Yields a socket that takes connections and never answers, like a node that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def hung(tmp_path: Path, silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Task:
    """Returns a task on this node and on one that hangs."""
    monkeypatch.setenv("_FAIRWAY_POD", "r-0")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path)
    run = tmp_path / "run"
    (run / "tasks" / "0").mkdir(parents=True)
    config = tmp_path / "ssh_config"
    config.write_text(f"Host *\n  Port {silent.getsockname()[1]}\n  BatchMode yes\n")
    plan = RunPlan("r", str(tmp_path), signal="TERM", grace=60.0)
    hosts = [Host("a", "127.0.0.1"), Host("b", "127.0.0.1")]
    nodes, folder = PodNodes(config=config), run / "tasks" / "0"
    return Task(plan, TaskSpec(0, nodes=2), run, folder, nodes=nodes, hosts=hosts)


def test_kubernetes_signal_reaches_local_ranks_while_another_pod_hangs(
    hung: Task, silent: socket.socket
) -> None:
    """Their grace begins at the same moment and is not spent waiting for the other pod."""
    script = "trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as rank:
        try:
            assert rank.stdout.readline() == b"ready\n"
            hung.process = rank
            hung.stop()
            there, _ = silent.accept()
            with there:
                assert rank.stdout.readline() == b"told\n"
                # The other is still being contacted: its client has sent its banner, and waits.
                assert there.recv(1024).startswith(b"SSH-2.0-")
                there.setblocking(False)
                with pytest.raises(BlockingIOError):
                    there.recv(1024)
            hung.nodes.clean(hung, 0)
        finally:
            rank.kill()
