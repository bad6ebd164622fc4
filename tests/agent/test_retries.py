"""How often a task begins again, by what its attempts ended with."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fairway_agent import supervisor
from fairway_agent.plan import RunPlan
from fairway_agent.ssh.task import HostTask
from fairway_agent.state_files import read_task
from fairway_agent.supervisor import Supervisor
from fairway_agent.task import Task
from fairway_agent.task_spec import TaskSpec
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from pathlib import Path


def _begun_again(plan: RunPlan, causes: str, folder: Path) -> str:
    """Of each end whether the task began again; `n` is a lost node, `e` a failure."""
    current = ""

    class Mine(HostTask):
        def lost(self) -> list[str]:
            return ["n1"] if current == "n" else []

    task = Mine(plan, TaskSpec(0), folder, folder / "tasks" / "0")
    said = ""
    for each in causes:
        current = each
        task.note_end()
        said += "+" if task.has_retry() else "-"
    return said


@pytest.mark.parametrize(
    ("retries", "limits", "causes", "said"),
    [
        (0, {}, "e", "-"),
        (2, {}, "eee", "++-"),
        # As before there were limits by cause: a lost node is a failure.
        (2, {}, "nen", "++-"),
        (1, {"node": 2}, "nnn", "++-"),
        (1, {"node": 2}, "nene", "+++-"),
        (0, {"node": 9}, "nne", "++-"),
        (0, {"node": 0}, "n", "-"),
        # Behind ssh nothing is seen of a preemption but the node that is lost.
        (1, {"preemption": 9}, "nn", "+-"),
    ],
)
def test_how_often_it_begins_again(
    tmp_path: Path, retries: int, limits: dict[str, int], causes: str, said: str
) -> None:
    plan = RunPlan("job-a", str(tmp_path), retries=retries, retry_limits=limits)
    assert _begun_again(plan, causes, tmp_path) == said


def test_what_is_used_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second node is lost, of one that may be; the state counts what ended by what."""
    plan = RunPlan("job-a", str(tmp_path), retries=5, retry_limits={"node": 1})
    task = HostTask(plan, TaskSpec(0), tmp_path, tmp_path / "tasks" / "0", attempt=0)
    left, right = socket.socketpair()
    guard = SimpleNamespace(pid=1, forget=lambda _: None)
    monkeypatch.setattr(supervisor.processes, "reap", lambda _: None)
    monkeypatch.setattr(HostTask, "ended", lambda _: 255)
    monkeypatch.setattr(HostTask, "session", 7, raising=False)
    monkeypatch.setattr(HostTask, "lost", lambda _: ["n1"])
    monkeypatch.setattr(HostTask, "why", lambda _: "node n1 could not be reached any more")
    with left, right:
        run = Supervisor(tmp_path, plan, guard, left, right)  # type: ignore[arg-type]
        monkeypatch.setattr(run.allocator, "give_back", lambda *_: None)
        for attempt, state in ((0, "queued"), (1, "failed")):
            run.running, run.counts["running"], task.attempt = [task], 1, attempt
            run._look_after_running(counted=True)
            known = read_task(task.folder)
            assert known is not None
            assert (known.state, known.ends) == (state, {"node": attempt + 1})
    assert known.reason == "node n1 could not be reached any more; `retry: {node: 1}` is used up"


def test_a_failure_says_nothing_of_limits(tmp_path: Path) -> None:
    plan = RunPlan("job-a", str(tmp_path), retry_limits={"node": 1})
    task = Task(plan, TaskSpec(0), tmp_path, tmp_path / "tasks" / "0", attempt=0)
    task.note_end()
    assert task.finish("failed", 3) == "failed"
    known = read_task(task.folder)
    assert known is not None
    assert (known.reason, known.ends) == (None, {"error": 1})


@pytest.mark.parametrize(
    ("known", "ends"),
    [
        (TaskState("running", ends={"error": 2}), {"error": 2, "node": 1}),
        (TaskState("running", ends={"node": 1}), {"node": 2}),
        (TaskState("running", stopped=True), {"preemption": 1}),
        (TaskState("queued", ends={"preemption": 4}), {"preemption": 4}),
        (TaskState("queued"), {}),
    ],
)
def test_an_attempt_that_was_cut_short_is_counted_once(
    known: TaskState, ends: dict[str, int]
) -> None:
    assert known.ends_with_this == ends
