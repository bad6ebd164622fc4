"""Where the runs of a plain cluster stand: as their folders say, or lost. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent.shared import states
from fairway_agent.shared.reports import StatesReport, StatesRequest
from fairway_agent.ssh.start import is_watched

if TYPE_CHECKING:
    from pathlib import Path

_REASON = "its supervisor on the main host is gone"

REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; a run that goes on and that nobody watches is lost."""
    found = states.reports(shared, request.runs)
    for run, report in found.items():
        if not report or not report.state or not report.state.goes_on:
            continue
        if is_watched(shared / "runs" / run):
            continue
        # It may have ended between the two looks, with everything that is to be known of it.
        again = states.reports(shared, {run: request.runs[run]})[run]
        if again and again.state and again.state.goes_on:
            again = replace(again, state=replace(again.state, state="lost", reason=_REASON))
        found[run] = again
    return StatesReport(found)
