"""Where runs stand, once the API server was asked. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.faults import Fault
from fairway_agent.kubernetes.api import NO_ANSWER, Api
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.shared import states
from fairway_agent.shared.reports import RunReport, StatesReport, StatesRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = StatesRequest


def answer(
    shared: Path,
    request: StatesRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> StatesReport:
    """See `shared.states`; one look at the API server for all of the runs.

    Where that does not answer, the states are those that it gave before and that tasks have
    written themselves, and `silent` says so.
    """
    silent, damaged = "", {}
    try:
        damaged = reconcile_all(Api(), [shared / "runs" / run for run in request.runs])
    except Fault as fault:
        if fault.record["id"] != NO_ANSWER:
            raise
        silent = str(fault)
    found = states.reports(shared, request.runs)
    found |= {run: RunReport(None, damaged=why) for run, why in damaged.items()}
    return StatesReport(found, silent)
