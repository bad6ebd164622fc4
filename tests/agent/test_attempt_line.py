"""The line with which another attempt begins in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task.scheduled import Scheduled, keep_before
from fairway_agent.task.task import Task
from fairway_agent.task_logs import append, attempt_line, begun

if TYPE_CHECKING:
    from pathlib import Path


def test_a_checkpoint_is_named_where_there_is_one(tmp_path: Path) -> None:
    """Words of several lines stay one line of the log."""
    assert (
        attempt_line(1, "gone\nfairway: x", str(tmp_path)) == "fairway: attempt 2: gone fairway: x"
    )
    (tmp_path / "step-7").touch()
    line = attempt_line(2, "exit code 3", str(tmp_path))
    assert line == f"fairway: attempt 3: exit code 3; the checkpoint is in {tmp_path}"
    assert begun(line.encode()) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"line\n"),
        (b"", b"line\n"),
        (b"one\n", b"one\nline\n"),
        (b"cut of", b"cut of\nline\n"),
    ],
)
def test_attempt_line_is_appended_on_a_line_of_its_own(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    log = tmp_path / "log.txt"
    if before is not None:
        log.write_bytes(before)
    append(log, "line")
    assert log.read_bytes() == after


def test_a_log_that_cannot_be_written_costs_the_line_alone(tmp_path: Path) -> None:
    append(tmp_path / "gone" / "log.txt", "line")
    append(tmp_path, "line")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line", [b"", b"attempt 2: x", b" fairway: attempt 2: x", b"fairway: attempt two: x"]
)
def test_attempt_line_is_not_recognised_in_program_output(line: bytes) -> None:
    assert begun(line) is None


def test_why_an_attempt_ended_is_kept_for_the_next(tmp_path: Path) -> None:
    none: Any = None
    scheduler = Scheduled(none, none, none)
    task = Task(RunPlan("job-a", "/x"), TaskSpec(0), tmp_path, tmp_path)
    assert scheduler.ended_before(task) == Scheduled.BEGUN_AGAIN
    keep_before(scheduler.before_file(task), "it ended with exit code 3")
    assert scheduler.ended_before(task) == "it ended with exit code 3"
    assert scheduler.begin(task)  # an attempt that cannot say so has lost its node
    assert scheduler.ended_before(task) == Scheduled.BEGUN_AGAIN
    keep_before(tmp_path / "gone" / "0", "nobody can hear this")
