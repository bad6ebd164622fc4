"""When logs of a run had which size, for those who read them from a moment on. Standard library
only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.log_times import FILE
from fairway_agent.shared.pieces import pieces_of
from fairway_agent.shared.reports import LogTimesReport, LogTimesRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = LogTimesRequest


def answer(
    shared: Path,
    request: LogTimesRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> LogTimesReport:
    """A piece of each note, as far as one answer goes."""
    run = shared / "runs" / request.run
    folders = (
        (name, run / ("setup" if name == "setup" else f"tasks/{name}")) for name in request.known
    )
    files = ((name, folder / FILE) for name, folder in folders)
    return LogTimesReport(*pieces_of(files, request.known))
