"""Ends one task of a run early. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent import cancelled_tasks
from fairway_agent.shared.reports import Done, TaskCancelRequest
from fairway_agent.ssh.start import wake

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = TaskCancelRequest


def answer(
    shared: Path,
    request: TaskCancelRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Notes it, and has the run's supervisor look."""
    folder = shared / "runs" / request.run
    if folder.is_dir():
        cancelled_tasks.cancel(folder, request.task, request.submission)
        wake(folder)
    return Done()
