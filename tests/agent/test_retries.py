"""Retries of a task, by the ends of its attempts."""

import errno
import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock

from fairway_agent import scratch
from fairway_agent.kubernetes.pod import Kubernetes, PodNodes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.ssh.attempt import SshNodes
from fairway_agent.state_files import (
    CANCELLATION,
    CANCELLED,
    ERROR,
    IO_ERROR,
    MACHINE,
    NODE,
    PREEMPTION,
    TaskState,
    read_task,
)
from fairway_agent.task import attempts as attempts_of
from fairway_agent.task import scheduled
from fairway_agent.task.attempts import Attempts, Patience, after_attempt
from fairway_agent.task.scheduled import run_attempts
from fairway_agent.task.task import Loss, Nodes, Task
from fairway_boot.files import AgentError


class Lost(Nodes):
    """Nodes whose last attempt ended by the given cause. A lost node is a failure, unless a
    scheduler takes nodes away."""

    def __init__(self, cause: str = ERROR, *, is_scheduled: bool = False) -> None:
        self.cause = cause
        self.LOSSES_ARE_FAILURES = not is_scheduled  # type: ignore[misc]

    def loss(self, _: Task) -> Loss | None:
        return None if self.cause == ERROR else Loss(self.cause, "gone")


@pytest.mark.parametrize(
    ("why", "code", "again", "ends"),
    [
        ("", 0, True, ("succeeded", 0)),
        ("", 3, True, ("queued", 3)),
        ("", 3, False, ("failed", 3)),
        ("", 124, True, ("queued", 124)),
        # Signalled because of its nodes, it has not succeeded even if it ends with 0.
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
def test_retries_outcome_of_an_attempt_gives_the_state_of_its_task(
    tmp_path: Path, why: str, code: int, again: bool, ends: tuple[str, int]
) -> None:
    for retries, is_last in [(1, not again)] + [(0, False)] * (not again):
        plan = RunPlan("job-a", str(tmp_path), retries=retries)
        task = Task(plan, TaskSpec(0), tmp_path, tmp_path, stopped_for=why)
        assert after_attempt(task, code, is_last=is_last) == ends
        assert task.failures_by_cause.total() == (ends[0] in ("queued", "failed"))


@pytest.mark.parametrize(
    ("poll", "before", "why", "told"),
    [
        (None, None, PREEMPTION, PREEMPTION),
        (0, None, PREEMPTION, ""),
        (3, None, PREEMPTION, ""),
        # It is already over its timeout, or was signalled because of its nodes.
        (None, "", PREEMPTION, ""),
        (None, NODE, MACHINE, NODE),
        (None, NODE, CANCELLATION, CANCELLATION),
        (0, NODE, CANCELLATION, NODE),
        (3, None, CANCELLATION, CANCELLATION),
    ],
)
def test_stop_records_its_reason_only_for_a_running_task(
    tmp_path: Path, poll: int | None, before: str | None, why: str, told: str
) -> None:
    class Silent(Nodes):
        def signal(self, *_: object) -> None: ...

    plan = RunPlan("job-a", str(tmp_path))
    task = Task(plan, TaskSpec(0), tmp_path, tmp_path, nodes=Silent())
    task.process = SimpleNamespace(poll=lambda: poll)  # type: ignore[assignment]
    if before is not None:
        task.kill_at, task.stopped_for = 1.0, before
    task.stop(why)
    assert task.stopped_for == told


def in_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gang: Any = None, **plan: Any) -> Task:
    """Returns the only task of a run, in a pod of its own."""
    monkeypatch.setenv("_FAIRWAY_POD", "job-a-0-0-abcde")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path)
    monkeypatch.setattr(PodNodes, "signal", lambda *_: None)
    run = tmp_path / "runs" / "job-a"
    run.mkdir(parents=True)
    made, nodes = RunPlan("job-a", str(tmp_path), **plan), PodNodes(gang)
    return Task(made, TaskSpec(0), run, run / "tasks" / "0", nodes=nodes, submission=0)


def run_as_pod(
    task: Task, patience: Patience | None = None, is_over: Callable[[], bool] = bool
) -> int:
    """Runs the task's attempts as its only pod does and returns the exit code."""
    watch: Any = SimpleNamespace(is_over=is_over, begin=lambda: None, due=None)
    here, there = socket.socketpair()
    with here, there:
        nodes: Any = task.nodes
        scheduler = Kubernetes(here, watch, nodes=nodes, part=nodes)
        scheduler.prepare = lambda _: None  # type: ignore[method-assign]
        attempts = Attempts(task, scheduler, patience or Patience())
        return run_attempts(attempts, scheduler)


@pytest.mark.parametrize(
    ("limits", "state", "code", "attempts"),
    [({}, "succeeded", 0, 2), ({"preemption": 0}, "failed", 143, 1)],
)
def test_retries_restart_an_evicted_task_that_ends_with_0_within_its_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    state: str,
    code: int,
    attempts: int,
) -> None:
    gang = SimpleNamespace(has_changed=lambda: task.attempt == 0, was_signalled=lambda: True)
    gang.connect_all, gang.begin = lambda: ([], None), lambda: None
    task = in_pod(tmp_path, monkeypatch, gang, retry_limits=limits)

    def start(task: Task) -> None:
        task.attempt += 1
        task.process = SimpleNamespace(poll=lambda: None)  # type: ignore[assignment]
        task.kill_at, task.stopped_for = None, ""
        task.nodes.is_broken, task.nodes.look_at = False, 0.0  # type: ignore[attr-defined]

    monkeypatch.setattr(attempts_of, "launch", start)
    monkeypatch.setattr(Task, "ended", lambda _: 0)
    assert run_as_pod(task) == code
    known = read_task(task.folder)
    assert (known.state, known.exit_code) == (state, code)
    assert (known.attempts, known.failures_by_cause) == (attempts, {"preemption": 1})


@pytest.mark.parametrize(
    ("number", "seconds", "fails", "ends"),
    [
        (errno.ENOSPC, 25.0, 2, ("succeeded", 0, 1)),
        (errno.EAGAIN, 15.0, 1, ("succeeded", 0, 1)),
        (errno.ENOMEM, 15.0, 9, ("failed", 74, 0)),
        (errno.EMFILE, 0.0, 9, ("failed", 74, 0)),
        # A permanent error is not retried.
        (errno.EACCES, 25.0, 1, ("failed", 74, 0)),
    ],
)
def test_start_that_fails_temporarily_is_retried_for_a_while(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    seconds: float,
    fails: int,
    ends: tuple[str, int, int],
) -> None:
    """A failed start is no attempt and counts as no failure."""
    task = in_pod(tmp_path, monkeypatch)
    clock = Clock.of(monkeypatch, attempts_of, scheduled)

    def wait(_: object, until: float) -> None:
        clock.sleep(until - clock.monotonic())

    monkeypatch.setattr(scheduled.processes, "wait", wait)
    refusals = [OSError(number, os.strerror(number))] * fails

    def start(task: Task) -> None:
        task.attempt += 1
        if refusals:
            raise refusals.pop()
        task.process = SimpleNamespace(poll=lambda: 0)  # type: ignore[assignment]

    monkeypatch.setattr(attempts_of, "launch", start)
    monkeypatch.setattr(Task, "ended", lambda _: 0)
    assert run_as_pod(task, Patience(seconds)) == ends[1]
    known = read_task(task.folder)
    assert (known.state, known.exit_code, known.attempts, known.failures_by_cause) == (*ends, None)
    is_told = (known.reason or "").startswith("it could not be started: ")
    assert is_told == (ends[0] == "failed")


def test_start_that_is_blocked_reports_why_and_ends_at_the_limit_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = in_pod(tmp_path, monkeypatch)
    seen: list[TaskState | None] = []

    def full(_: Task) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(attempts_of, "launch", full)

    def wait(*_: object) -> None:
        seen.append(read_task(task.folder))
        assert len(seen) < 3

    monkeypatch.setattr(scheduled.processes, "wait", wait)
    assert run_as_pod(task, is_over=lambda: len(seen) > 1) == CANCELLED
    assert [each and (each.state, each.reason) for each in seen] == [
        ("queued", "no task can be started: [Errno 28] No space left on device")
    ] * 2
    assert read_task(task.folder).state == "cancelled"


def test_fault_ends_the_programs_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = in_pod(tmp_path, monkeypatch)
    told: list[int] = []

    def start(task: Task) -> None:
        task.process = SimpleNamespace(poll=lambda: -15 if told else None)  # type: ignore[assignment]

    def damaged(*_: object) -> None:
        raise AgentError("damaged-run", "control.json: damaged")

    monkeypatch.setattr(attempts_of, "launch", start)
    monkeypatch.setattr(Task, "ended", lambda task: task.process.poll())
    monkeypatch.setattr(PodNodes, "look", damaged)
    monkeypatch.setattr(PodNodes, "signal", lambda _, __, number: told.append(number))
    assert run_as_pod(task) == IO_ERROR
    known = read_task(task.folder)
    assert (told, known.state, known.reason) == ([15], "failed", "control.json: damaged")


CAUSES = {"n": NODE, "p": PREEMPTION, "e": ERROR}


@pytest.mark.parametrize(
    ("retries", "limits", "causes", "ssh", "slurm"),
    [
        (0, {}, "e", "-", "-"),
        (2, {}, "eee", "++-", "++-"),
        # A lost node is a failure, or free if a scheduler takes nodes away.
        (2, {}, "nen", "++-", "+++"),
        (0, {}, "npn", "---", "+++"),
        (0, {}, "npe", "---", "++-"),
        (1, {"node": 2}, "nnn", "++-", "++-"),
        (1, {"node": 2}, "nene", "+++-", "+++-"),
        (0, {"node": 9}, "nne", "++-", "++-"),
        (0, {"node": 0}, "n", "-", "-"),
        # It does not count as a failure either, of which more are allowed.
        (5, {"node": 0, "preemption": 1}, "pepn", "++--", "++--"),
        # Over ssh a preemption is visible only as a lost node.
        (1, {"preemption": 9}, "nn", "+-", "++"),
    ],
)
def test_retries_restart_a_task_within_the_limit_of_each_cause(
    tmp_path: Path, retries: int, limits: dict[str, int], causes: str, ssh: str, slurm: str
) -> None:
    plan = RunPlan("job-a", str(tmp_path), retries=retries, retry_limits=limits)
    for expected, is_scheduled in ((ssh, False), (slurm, True)):
        nodes, said = Lost(is_scheduled=is_scheduled), ""
        task = Task(plan, TaskSpec(0), tmp_path, tmp_path / "tasks" / "0", nodes=nodes)
        for each in causes:
            nodes.cause = CAUSES[each]
            said += {"queued": "+", "failed": "-"}[after_attempt(task, 255)[0]]
        assert said == expected
        assert task.failures_by_cause == Counter(CAUSES[each] for each in causes)


def test_retries_that_are_used_up_are_reported_with_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second node is lost, and only one is allowed; the state counts the attempts by cause."""
    plan = RunPlan("job-a", str(tmp_path), retries=5, retry_limits={"node": 1})
    nodes, folder = SshNodes(), tmp_path / "tasks" / "0"
    folder.mkdir(parents=True)
    why = "node n1 could not be reached any more"
    monkeypatch.setattr(SshNodes, "loss", lambda *_: Loss(NODE, why, ["n1"]))
    attempts = Attempts(Task(plan, TaskSpec(0), tmp_path, folder, attempt=0, nodes=nodes))
    for state, losses in (("queued", 1), ("failed", 2)):
        attempts.decide(255)
        known = read_task(folder)
        assert (known.state, known.failures_by_cause) == (state, {"node": losses})
    assert known.reason == f"{why}; `retry: {{node: 1}}` is used up"
    plan = RunPlan("job-az", str(tmp_path), retry_limits={"node": 1})
    task = Task(plan, TaskSpec(0), tmp_path, tmp_path / "tasks" / "0", attempt=0)
    task.failures_by_cause[ERROR] += 1
    assert task.finish("failed", 3) == "failed"
    known = read_task(task.folder)
    assert (known.reason, known.failures_by_cause) == (None, {"error": 1})
