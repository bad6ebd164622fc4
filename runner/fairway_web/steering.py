"""What buttons and calls do to runs: by whom they may, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_runner.submit.retry import retry
from fairway_web.audit import noted, require_steering

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def cancel_run(run: Run, task: str | None = None) -> None:
    """Ends it early, or one task of it; returns when that has ended."""
    with noted("cancel" if task is None else f"cancel task {task[:20]}", run):
        require_steering(run)
        run.cancel(task)


def retry_run(run: Run) -> list[int]:
    """Runs its unsuccessful tasks again; their numbers."""
    with noted("retry", run):
        require_steering(run)
        return retry(run)
