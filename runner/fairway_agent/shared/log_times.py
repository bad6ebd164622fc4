"""When logs of a run had which size, for those who read them from a moment on. Standard library
only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.log_times import FILE
from fairway_agent.shared.pieces import MOST, piece_of
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
    budget, found, more = [MOST], {}, False
    for name, known in request.known.items():
        if budget[0] <= 0:
            more = True
            break
        folder = "setup" if name == "setup" else f"tasks/{name}"
        if piece := piece_of(shared / "runs" / request.run / folder / FILE, known, budget):
            found[name] = piece
            more = more or piece.more
    return LogTimesReport(found, more)
