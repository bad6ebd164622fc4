"""Where the runs of a plain cluster stand: as their folders say, or lost. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent.shared import states
from fairway_agent.shared.reports import StatesReport, StatesRequest
from fairway_agent.ssh.start import is_watched

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.shared.reports import RunReport

_REASON = "its supervisor on the main host is gone"

REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; a run that goes on and that nobody watches is lost."""
    found = states.reports(shared, request.runs)
    for run, report in found.items():
        if not _goes_on(report) or is_watched(shared / "runs" / run):
            continue
        # It may have ended between the two looks, with everything that is to be known of it.
        again = states.reports(shared, {run: request.runs[run]})[run]
        if again is not None and again.state is not None and again.state.goes_on:
            lost = replace(again.state, state="lost", reason=_REASON)
            again = replace(again, state=lost)
        found[run] = again
    return StatesReport(found)


def _goes_on(report: RunReport | None) -> bool:
    return report is not None and report.state is not None and report.state.goes_on
