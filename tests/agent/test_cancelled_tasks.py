"""Tasks that a person ends, each by itself: what the run's folder says of them."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import cancelled_tasks
from fairway_agent.fields import Damaged
from fairway_agent.plan import RunPlan
from fairway_agent.supervisor import Supervisor
from fairway_agent.task import Task
from fairway_agent.task_spec import TaskSpec
from fairway_agent.task_state import CANCELLATION

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_noted_of_a_run_whose_tasks_go_on(tmp_path: Path) -> None:
    assert cancelled_tasks.names(tmp_path) == set()
    assert not cancelled_tasks.is_cancelled(tmp_path, "0")


def test_a_note_holds_for_one_submission_and_those_before(tmp_path: Path) -> None:
    cancelled_tasks.cancel(tmp_path, "3", 1)
    cancelled_tasks.cancel(tmp_path, "finally", 2)
    assert cancelled_tasks.names(tmp_path) == {"3", "finally"}
    held = [cancelled_tasks.is_cancelled(tmp_path, "3", number) for number in (0, 1, 2)]
    assert held == [True, True, False]
    cancelled_tasks.forget(tmp_path)
    assert cancelled_tasks.names(tmp_path) == set()


def test_what_else_lies_there_is_no_task(tmp_path: Path) -> None:
    """A note that was being written when the power went."""
    cancelled_tasks.cancel(tmp_path, "3")
    (tmp_path / "cancelled-tasks" / ".3.x7").write_text("{")
    (tmp_path / "cancelled-tasks" / "setup").write_text("{}")
    assert cancelled_tasks.names(tmp_path) == {"3"}


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    cancelled_tasks.cancel(tmp_path, "3")
    (tmp_path / "cancelled-tasks" / "3").write_text("{")
    with pytest.raises(Damaged, match="cancelled-tasks"):
        cancelled_tasks.is_cancelled(tmp_path, "3")


@pytest.mark.parametrize(
    ("code", "cancelled", "told"), [(None, True, 1), (0, False, 0), (3, True, 0)]
)
def test_one_that_has_just_ended_is_told_nothing_and_a_success_stays_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int | None,
    cancelled: bool,
    told: int,
) -> None:
    """Its supervisor has not looked yet: a failure has no other attempt."""
    said: list[object] = []
    monkeypatch.setattr(Task, "_tell", lambda _, number: said.append(number))
    plan = RunPlan("job-a", str(tmp_path))
    task = Task(plan, TaskSpec(0), tmp_path, tmp_path / "tasks" / "0")
    process: Any = SimpleNamespace(poll=lambda: code)
    task.process = process
    cancelled_tasks.cancel(tmp_path, "0")
    left, right = socket.socketpair()
    guard: Any = SimpleNamespace(pid=1)
    with left, right:
        run = Supervisor(tmp_path, plan, guard, left, right)
        run.running = [task]
        run._end_apart()
        run._end_apart()  # once
    assert (task.told == CANCELLATION, len(said)) == (cancelled, told)
