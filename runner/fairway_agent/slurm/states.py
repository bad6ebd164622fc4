"""Where runs stand, once Slurm was asked. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent.faults import Fault
from fairway_agent.shared import states
from fairway_agent.shared.reports import RunReport, StatesReport, StatesRequest
from fairway_agent.slurm.commands import NO_ANSWER
from fairway_agent.slurm.reconcile import reconcile_all

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = StatesRequest


def answer(
    shared: Path,
    request: StatesRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> StatesReport:
    """See `shared.states`; one squeue for all of the runs.

    Where Slurm does not answer, the states are those that it gave before and that tasks have
    written themselves, and `silent` says so.
    """
    silent, damaged = "", {}
    try:
        damaged = reconcile_all([shared / "runs" / run for run in request.runs])
    except Fault as fault:
        if fault.record["id"] != NO_ANSWER:
            raise
        silent = str(fault)
    found = states.reports(shared, request.runs)
    found |= {run: RunReport(None, damaged=why) for run, why in damaged.items()}
    return StatesReport(found, silent)
