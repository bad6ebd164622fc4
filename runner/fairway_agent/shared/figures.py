"""What was sampled on the nodes of a run, for those who watch it. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.figures import FOLDER
from fairway_agent.shared.pieces import MOST, piece_of
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
    budget, found, more = [MOST], {}, False
    for file in sorted((shared / "runs" / request.run / FOLDER).glob("*.jsonl")):
        if budget[0] <= 0:
            more = True
            break
        node = file.name.removesuffix(".jsonl")
        if piece := piece_of(file, request.known.get(node, 0), budget):
            found[node] = piece
            more = more or piece.more
    return FiguresReport(found, more)
