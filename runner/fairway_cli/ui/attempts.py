"""Whether the lines of one attempt can be told apart in the logs of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.attempt_line import begun
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_runner.runs.store import Run


def require_attempt(run: Run, tasks: Sequence[int], attempt: int) -> None:
    """UserError where none of the tasks has this attempt, from 1, or a log does not say where it
    begins and ends, as those of an earlier release do not."""
    counts = {task: run.task_status(task).attempts for task in tasks}
    most = max(counts.values(), default=0)
    if attempt > most:
        hint = f"its attempts are 1 to {most}" if most else "none has begun yet"
        raise UserError.of("unknown-attempt", f"{run.id} has no attempt {attempt}", hint)
    for task, count in counts.items():
        wanted = {attempt, attempt + 1} - {1, count + 1}
        if attempt <= count and wanted and not wanted <= _begun(run.log(task)):
            message = f"the log of task {task} of {run.id} does not say where its attempts begin"
            hint = "an earlier release wrote it; leave --attempt out"
            raise UserError.of("unmarked-attempts", message, hint)


def _begun(log: Path) -> set[int]:
    """The attempts, from 1, that a log says to begin."""
    try:
        with log.open("rb") as lines:
            return {attempt for line in lines if (attempt := begun(line)) is not None}
    except FileNotFoundError:
        return set()
