"""Outcomes of tasks, from their last records and their schedulers' views."""

from __future__ import annotations

import pytest

from fairway_agent.reconcile import REPORT_WAIT, JobView, resolve
from fairway_agent.state_files import TaskState

NOW = 1_700_000_000.0
ENDED = NOW - 10
FRESH = TaskState()
RUNNING = TaskState("running", attempt=1, started=NOW - 60, node="nd-1")
STOPPED = TaskState("running", attempt=1, started=NOW - 60, stopped=True)
FULL = JobView("failed", "out of memory", 137, ENDED)
SILENT = JobView("failed", "no report", ended=ENDED, unreported=True)
GONE = JobView("lost", "its job is gone")


def queued(reason: str | None, **ends: int) -> TaskState:
    """One that has begun before."""
    return TaskState("queued", attempt=1, started=NOW - 60, reason=reason, ends=ends)


def ended(state: str, code: int, reason: str | None, when: float = ENDED) -> TaskState:
    """One whose scheduler says its end."""
    known = TaskState(state, attempt=1, started=NOW - 60, node="nd-1")
    return TaskState(
        **{name: getattr(known, name) for name in ("state", "attempt", "started", "node")},
        ended=when,
        exit_code=code,
        timed_out=code == 124,
        reason=reason,
    )


@pytest.mark.parametrize(
    ("status", "view", "cancelled", "now", "expected"),
    [
        pytest.param(FRESH, None, False, NOW, FRESH, id="nothing is known"),
        pytest.param(RUNNING, None, True, NOW, RUNNING, id="nothing new is known"),
        pytest.param(RUNNING, JobView("running"), True, NOW, RUNNING, id="it has its grace"),
        # Waiting.
        pytest.param(FRESH, JobView("queued", "why"), False, NOW, FRESH, id="it never began"),
        pytest.param(
            RUNNING, JobView("queued", "why"), False, NOW, queued("why", node=1), id="node lost"
        ),
        pytest.param(
            STOPPED,
            JobView("queued"),
            False,
            NOW,
            queued("it starts again", preemption=1),
            id="taken away, and nobody says what it waits for",
        ),
        pytest.param(
            queued("old", node=1),
            JobView("running", "2 of its 3 pods run"),
            False,
            NOW,
            queued("2 of its 3 pods run", node=1),
            id="it has a part of what it needs",
        ),
        pytest.param(
            RUNNING, JobView("running", "1 of 2"), False, NOW, RUNNING, id="it has been whole"
        ),
        pytest.param(
            RUNNING,
            JobView("running", "suspended", suspended=True),
            False,
            NOW,
            RUNNING,
            id="its file is its own while it is suspended",
        ),
        # Ended.
        pytest.param(RUNNING, FULL, False, NOW, ended("failed", 137, "out of memory"), id="memory"),
        pytest.param(
            RUNNING,
            JobView("failed", "over its limit", 124, ENDED, timed_out=True),
            False,
            NOW,
            ended("failed", 124, "over its limit"),
            id="time",
        ),
        pytest.param(RUNNING, FULL, True, NOW, ended("cancelled", 130, None), id="cancelled"),
        pytest.param(RUNNING, GONE, True, NOW, ended("cancelled", 130, None, NOW), id="taken back"),
        pytest.param(
            RUNNING,
            GONE,
            False,
            NOW,
            ended("lost", 5, "its job is gone", NOW),
            id="nobody knows it",
        ),
        pytest.param(
            RUNNING,
            JobView("failed", "x", ended=NOW - 90),
            False,
            NOW,
            ended("failed", 5, "x", NOW - 60),
            id="nothing ends before it began: times are whole seconds",
        ),
        # Its own report may be on its way.
        pytest.param(RUNNING, SILENT, False, NOW, RUNNING, id="a report may come"),
        pytest.param(RUNNING, SILENT, True, NOW, RUNNING, id="a report of one that is cancelled"),
        pytest.param(
            RUNNING,
            SILENT,
            False,
            ENDED + REPORT_WAIT,
            ended("failed", 5, "no report"),
            id="no report has come",
        ),
        pytest.param(
            RUNNING,
            SILENT,
            True,
            ENDED + REPORT_WAIT,
            ended("cancelled", 130, None),
            id="no report of one that is cancelled",
        ),
        pytest.param(
            RUNNING,
            JobView("failed", "no report", unreported=True),
            False,
            NOW + 1e6,
            RUNNING,
            id="its end has no time yet",
        ),
    ],
)
def test_reconcile_resolves_the_state_of_a_task_from_its_job(
    status: TaskState, view: JobView | None, cancelled: bool, now: float, expected: TaskState
) -> None:
    found = resolve(status, view, cancelled=cancelled, now=now)
    assert found == expected
    # Looking again changes nothing.
    assert resolve(found, view, cancelled=cancelled, now=now + 1) == expected


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
@pytest.mark.parametrize("view", [None, GONE, SILENT, JobView("queued", "why"), JobView("running")])
def test_a_final_state_stays(state: str, view: JobView | None) -> None:
    status = TaskState(state, exit_code=3)
    assert resolve(status, view, cancelled=True, now=NOW + 1e6) == status


def test_memory_is_a_reason_that_a_task_cannot_know() -> None:
    found = resolve(TaskState("failed", exit_code=137), FULL, cancelled=False, now=NOW)
    assert found == TaskState("failed", exit_code=137, reason="out of memory")
    said = TaskState("failed", exit_code=137, reason="its own")
    assert resolve(said, FULL, cancelled=False, now=NOW) == said
