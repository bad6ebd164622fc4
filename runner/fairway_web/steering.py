"""What buttons and calls do to runs: by whom they may, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.submit.retry import retries_here, retry
from fairway_web.audit import noted, require_steering
from fairway_web.roles import may

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
        if not may("here") and retries_here(run):  # they were an Operator when they submitted it
            raise not_here("submit it to another target")
        return retry(run)


def not_here(hint: str) -> UserError:
    """What is said of a job on this machine to those who may not: a program here could read
    whatever the server can, its tokens for Azure too."""
    message = "your role does not let you run jobs on the machine of the server"
    return UserError.of("missing-role", message, f"{hint}, or ask for the role Operator")
