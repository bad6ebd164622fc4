"""Samples of a run's nodes, for those who watch it as it runs. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import figures
from fairway_agent.shared.pieces import pieces_of
from fairway_agent.shared.reports import FiguresReport, FiguresRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = FiguresRequest


def answer(shared: Path, request: FiguresRequest, _: object) -> FiguresReport:
    """A piece of each node's file, as far as one answer goes."""
    folder = shared / "runs" / request.run / figures.FOLDER
    files = ((file.name.removesuffix(".jsonl"), file) for file in sorted(folder.glob("*.jsonl")))
    return FiguresReport(*pieces_of(files, request.known))
