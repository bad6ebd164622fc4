"""A run that is over a limit of its own, by a clock of the test's own and figures by hand."""

from __future__ import annotations

import errno
import json
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import limits, state_files, supervisor
from fairway_agent.limits import Held, Over
from fairway_agent.spec import LAST, Budget, Retry, RunPlan, TaskSpec
from fairway_agent.state_files import CANCELLATION, TaskState
from fairway_agent.supervisor import Supervisor
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# 200 dollars at 12.50 an hour are 16 hours of a node: 57,600 s.
BUDGET = Budget(200.0, "USD", 12.5)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Supervisor, Any]]:
    """A supervisor of a run of at most an hour, and the clock that it looks at."""
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(
        supervisor, "time", SimpleNamespace(time=lambda: clock.now, monotonic=lambda: clock.now - 5)
    )
    left, right = socket.socketpair()
    with left, right:
        plan = RunPlan("job-a", str(tmp_path), max_duration=3600.0)
        yield Supervisor(tmp_path, plan, SimpleNamespace(pid=1), left, right), clock  # type: ignore[arg-type]


def test_max_duration_ends_the_run_when_its_time_is_over(made: tuple[Supervisor, Any]) -> None:
    run, clock = made
    assert run._next_deadline() is None  # it has not begun: who waits for nodes loses nothing
    run._keep_limit()
    run.started = 1e9
    clock.now += 600
    assert run._next_deadline() == 1e9 + 3600 - 5
    run._keep_limit()
    assert run.limit is None
    clock.now += 3000
    run._keep_limit()
    assert (run.limit, run.reason) == ("max_duration", "it was over its max_duration of 1h")
    assert (run._next_deadline(), run._outcome()) == (None, "failed")


def test_what_hinders_a_start_has_a_time_of_its_own(made: tuple[Supervisor, Any]) -> None:
    """The task that was hindered before was cancelled meanwhile."""
    run, _ = made
    assert run.patience.lasts(OSError(errno.ENOSPC, "full"))
    run._begin_due(iter(()), counted=True)
    assert (run.patience.until, run.patience.hindrance) == (None, None)


def test_max_duration_leaves_a_cancelled_run_cancelled(made: tuple[Supervisor, Any]) -> None:
    run, clock = made
    run.started, run.ending = 1e9, CANCELLATION
    clock.now += 7200
    run._keep_limit()
    assert (run.limit, run.reason) == (None, None)


def test_max_cost_ends_the_run_when_its_budget_is_spent(made: tuple[Supervisor, Any]) -> None:
    """4 nodes from the first second and 2 more after an hour: after an hour 4 of 16 node hours are
    spent, and the other 12 are after two more."""
    run, clock = made
    run.plan, run.started = replace(run.plan, max_duration=None, max_cost=BUDGET), 1e9
    run.running = [Attempts(_task(run, 0, nodes=4, started=1e9))]
    assert run._next_deadline() == 1e9 + 4 * 3600 - 5
    clock.now += 3600
    run.running.append(Attempts(_task(run, 1, nodes=2, started=clock.now)))
    assert run._next_deadline() == 1e9 + 3 * 3600 - 5
    clock.now += 7199
    run._keep_limit()
    assert run.limit is None
    clock.now += 1
    run._keep_limit()
    assert (run.limit, run.reason) == ("max_cost", "it was over its max_cost of 200 USD")
    run._record("running")
    facts = json.loads((run.folder / "state.json").read_text())
    assert (facts["limit"], facts["exit_code"]) == ("max_cost", 124)


def test_attempts_that_have_ended_are_paid_for(
    made: tuple[Supervisor, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = made
    run.plan, run.started = replace(run.plan, max_duration=None, max_cost=BUDGET), 1e9
    task = _task(run, 0, nodes=2, started=1e9)
    monkeypatch.setattr(supervisor.processes, "reap", lambda _: None)
    monkeypatch.setattr(Task, "ended", lambda _: 0)
    monkeypatch.setattr(Task, "session", 7, raising=False)
    run.guard = SimpleNamespace(pid=1, forget=lambda _: None)  # type: ignore[assignment]
    run.running, run.counts["running"] = [Attempts(task, state="running")], 1
    clock.now += 3600
    run._look_after_running(counted=True)
    assert (run.running, run._held()) == ([], Held(7200.0))


def test_max_cost_counts_time_held_before_a_retry(made: tuple[Supervisor, Any]) -> None:
    """3 nodes for 1,000 s and the last task for 50 s; nothing of the one that never began."""
    run, _ = made
    run.plan = replace(run.plan, max_cost=BUDGET, retry=Retry((0,)))
    lines = [TaskSpec(0, nodes=3).line(), TaskSpec(1, nodes=5).line()]
    (run.folder / "tasks.jsonl").write_text("".join(lines))
    (run.folder / "finally.jsonl").write_text(TaskSpec(LAST).line())
    for name, seconds in (("0", 1000.0), (LAST, 50.0)):
        folder = run.folder / "tasks" / name
        folder.mkdir(parents=True)
        state_files.write(folder, TaskState("failed", attempt=0, started=1e9, held=seconds))
    run._queue_again()
    assert run.spent == 3050.0


def _task(run: Supervisor, index: int, *, nodes: int, started: float) -> Task:
    spec = TaskSpec(index, nodes=nodes)
    return Task(run.plan, spec, run.folder, run.folder / "tasks" / str(index), started=started)


@pytest.mark.parametrize(
    ("now", "held", "found"),
    [
        (1e9 + 3599.9, Held(57_599.9), None),
        (1e9 + 3600, Held(), Over("max_duration", "it was over its max_duration of 1h")),
        (1e9, Held(57_600.0), Over("max_cost", "it was over its max_cost of 200 USD")),
        # Of two the one that is told first.
        (1e9 + 3600, Held(1e9), Over("max_duration", "it was over its max_duration of 1h")),
    ],
)
def test_limits_over_names_the_exceeded_limit(now: float, held: Held, found: Over | None) -> None:
    plan = RunPlan("job-a", "/", max_duration=3600.0, max_cost=BUDGET)
    assert limits.over(plan, now, 1e9, held) == found
    assert limits.over(plan, now, None, held) is None
    assert limits.over(RunPlan("job-a", "/"), now, 1e9, held) is None


def test_limits_held_sums_node_seconds_of_ended_and_running_tasks(tmp_path: Path) -> None:
    """One that ended (2 × 100 s), one that runs in its second attempt (10 s and 30 s of 4 nodes),
    one that waits for its third (20 s), and one that Slurm has ended."""
    states = [
        TaskState("succeeded", started=1e9 - 100, ended=1e9, held=100.0),
        TaskState("running", attempt=1, started=1e9 - 30, held=10.0),
        TaskState("queued", attempt=1, started=1e9 - 500, held=20.0),
        TaskState("running", started=1e9 - 60, ended=1e9 - 55, held=5.0, stopped=True),
    ]
    for index, state in enumerate(states):
        (tmp_path / "tasks" / str(index)).mkdir(parents=True)
        state_files.write(tmp_path / "tasks" / str(index), state)
    assert limits.held(tmp_path, dict(zip("01234", (2, 4, 1, 1, 8), strict=True)), 1e9) == Held(
        200 + 160 + 20 + 5, 4
    )
