"""What was sampled on the nodes of a run, for those who watch it. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.figures import FOLDER
from fairway_agent.shared.pieces import pieces_of
from fairway_agent.shared.reports import FiguresReport, FiguresRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = FiguresRequest


def answer(
    shared: Path,
    request: FiguresRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> FiguresReport:
    """A piece of each node's samples, as far as one answer goes."""
    folder = shared / "runs" / request.run / FOLDER
    files = ((file.name.removesuffix(".jsonl"), file) for file in sorted(folder.glob("*.jsonl")))
    return FiguresReport(*pieces_of(files, request.known))
