"""Files of a run that grow beside its logs, for those who watch it: samples of its nodes, and notes
of when its logs had which size. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import figures, log_times
from fairway_agent.shared.pieces import pieces_of
from fairway_agent.shared.reports import FIGURES, PiecesReport, PiecesRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

REQUEST = PiecesRequest


def answer(shared: Path, request: PiecesRequest, _: object) -> PiecesReport:
    """A piece of each file, as far as one answer goes."""
    run = shared / "runs" / request.run
    files = _figures(run) if request.what == FIGURES else _log_times(run, request.known)
    return PiecesReport(*pieces_of(files, request.known))


def _figures(run: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted((run / figures.FOLDER).glob("*.jsonl")):
        yield file.name.removesuffix(".jsonl"), file


def _log_times(run: Path, tasks: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for name in tasks:
        folder = run / ("setup" if name == "setup" else f"tasks/{name}")
        yield name, folder / log_times.FILE
