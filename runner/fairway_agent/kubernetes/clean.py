"""Removes a run that has ended: its objects, then its folder."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.kubernetes.api import Api
from fairway_agent.kubernetes.cancel import delete
from fairway_agent.shared import runs
from fairway_agent.shared.reports import RunsReport, RunsRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = RunsRequest


def answer(shared: Path, request: RunsRequest, payload: IO[bytes]) -> RunsReport:
    """Removes a run."""
    if request.remove is not None:
        delete(Api(), shared / "runs" / request.remove)
    return runs.answer(shared, request, payload)
