"""How often a task begins again, by what its attempts ended with."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fairway_agent import scratch, supervisor
from fairway_agent.kubernetes.task import PodTask
from fairway_agent.plan import RunPlan
from fairway_agent.shared.attempts import Attempts
from fairway_agent.ssh.task import HostTask
from fairway_agent.state_files import read_task
from fairway_agent.supervisor import Supervisor
from fairway_agent.task import Task
from fairway_agent.task_spec import TaskSpec
from fairway_agent.task_state import CANCELLATION, MACHINE, NODE, PREEMPTION, TaskState, outcome

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("told", "code", "again", "ends"),
    [
        ("", 0, True, ("succeeded", 0)),
        ("", 3, True, ("queued", 3)),
        ("", 3, False, ("failed", 3)),
        ("", 124, True, ("queued", 124)),
        # Told because of its nodes, it is not done by ending with 0.
        (NODE, 0, True, ("queued", 143)),
        (PREEMPTION, 0, True, ("queued", 143)),
        (PREEMPTION, 1, True, ("queued", 1)),
        (NODE, 0, False, ("failed", 143)),
        (PREEMPTION, 0, False, ("failed", 143)),
        (PREEMPTION, 137, False, ("failed", 137)),
        (MACHINE, 0, True, ("lost", 143)),
        (MACHINE, 1, False, ("lost", 1)),
        (CANCELLATION, 0, True, ("cancelled", 0)),
        (CANCELLATION, 3, True, ("cancelled", 3)),
    ],
)
def test_how_an_attempt_ends_its_task(
    told: str, code: int, again: bool, ends: tuple[str, int]
) -> None:
    assert outcome(told, code, again=again) == ends


@pytest.mark.parametrize(
    ("poll", "before", "why", "told"),
    [
        (None, None, PREEMPTION, PREEMPTION),
        (0, None, PREEMPTION, ""),
        (3, None, PREEMPTION, ""),
        # It is over its time already, or told for its nodes.
        (None, "", PREEMPTION, ""),
        (None, NODE, MACHINE, NODE),
        (None, NODE, CANCELLATION, CANCELLATION),
        (0, NODE, CANCELLATION, NODE),
        (3, None, CANCELLATION, CANCELLATION),
    ],
)
def test_only_a_task_that_runs_is_told(
    tmp_path: Path, poll: int | None, before: str | None, why: str, told: str
) -> None:
    class Mine(Task):
        def _tell(self, number: object) -> None: ...

    task = Mine(RunPlan("job-a", str(tmp_path)), TaskSpec(0), tmp_path, tmp_path)
    task.process = SimpleNamespace(poll=lambda: poll)  # type: ignore[assignment]
    if before is not None:
        task.kill_at, task.told = 1.0, before
    task.stop(why)
    assert task.told == told


@pytest.mark.parametrize(
    ("limits", "state", "code", "attempts"),
    [({}, "succeeded", 0, 2), ({"preemption": 0}, "failed", 143, 1)],
)
def test_a_task_in_pods_that_saves_and_ends_with_0_as_one_is_evicted_begins_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    state: str,
    code: int,
    attempts: int,
) -> None:
    monkeypatch.setenv("_FAIRWAY_POD", "job-a-0-0-abcde")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path)
    run = tmp_path / "runs" / "job-a"
    run.mkdir(parents=True)
    plan = RunPlan("job-a", str(tmp_path), retry_limits=limits)
    gang = SimpleNamespace(has_changed=lambda: task.attempt == 0, was_told=lambda: True)
    task = PodTask(plan, TaskSpec(0, nodes=2), run, run / "tasks" / "0", gang=gang)  # type: ignore[arg-type]

    class Mine(Attempts):
        def _attempt(self) -> int:
            task.attempt += 1
            task.process = SimpleNamespace(poll=lambda: None)  # type: ignore[assignment]
            task.kill_at, task.told, task.is_broken, task.look_at = None, "", False, 0.0
            monkeypatch.setattr(task, "_tell", lambda _: None)
            task.keep_deadline()
            return 0

    watch = SimpleNamespace(is_over=lambda: False)
    assert Mine(task, None, None, watch)._run() == code  # type: ignore[arg-type]
    known = read_task(task.folder)
    assert known is not None
    assert (known.state, known.exit_code) == (state, code)
    assert (known.attempts, known.ends) == (attempts, {"preemption": 1})


@pytest.mark.parametrize(
    ("number", "retries", "fails", "ends"),
    [
        (errno.ENOSPC, 2, 2, ("succeeded", 0, 1)),
        (errno.EAGAIN, 1, 1, ("succeeded", 0, 1)),
        (errno.ENOMEM, 1, 9, ("failed", 74, 0)),
        (errno.EMFILE, 0, 9, ("failed", 74, 0)),
        # What does not pass is not tried again.
        (errno.EACCES, 2, 1, ("failed", 74, 1)),
    ],
)
def test_a_start_that_fails_for_what_may_pass_is_tried_again_as_often_as_a_failure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    retries: int,
    fails: int,
    ends: tuple[str, int, int],
) -> None:
    monkeypatch.setenv("_FAIRWAY_POD", "job-a-0-0-abcde")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path)
    run = tmp_path / "runs" / "job-a"
    run.mkdir(parents=True)
    plan = RunPlan("job-a", str(tmp_path), retries=retries)
    task = PodTask(plan, TaskSpec(0), run, run / "tasks" / "0")
    refusals = [OSError(number, os.strerror(number))] * fails

    class Mine(Attempts):
        PAUSE = 0.0

        def _attempt(self) -> int:
            task.attempt += 1
            if refusals:
                raise refusals.pop()
            return 0

    watch, wakeups = SimpleNamespace(is_over=lambda: False), socket.socketpair()
    assert Mine(task, None, wakeups[0], watch)._run() == ends[1]  # type: ignore[arg-type]
    for each in wakeups:
        each.close()
    known = read_task(task.folder)
    assert known is not None
    assert (known.state, known.exit_code, known.attempts) == ends
    is_told = (known.reason or "").startswith("it could not be started: ")
    assert is_told == (ends[0] == "failed")


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
