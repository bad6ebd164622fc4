"""The signal to a task in several pods, of which one does not answer."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from fairway_agent import scratch
from fairway_agent.allocators.machine import Host
from fairway_agent.nodes.pods import PodNodes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Takes connections and never says anything, as a node does that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def task(tmp_path: Path, silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task on this node and on one that hangs."""
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


def test_ranks_beside_it_are_told_while_another_pod_does_not_answer(
    task: Task, silent: socket.socket
) -> None:
    """They have their grace from the same moment on: it is not spent in waiting for the other."""
    script = "trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as rank:
        try:
            assert rank.stdout.readline() == b"ready\n"
            task.process = rank
            task.stop()
            there, _ = silent.accept()
            with there:
                assert rank.stdout.readline() == b"told\n"
                # The other is still being asked: its client has said who it is, and goes on.
                assert there.recv(1024).startswith(b"SSH-2.0-")
                there.setblocking(False)
                with pytest.raises(BlockingIOError):
                    there.recv(1024)
            task.nodes.clean(task, 0)
        finally:
            rank.kill()
