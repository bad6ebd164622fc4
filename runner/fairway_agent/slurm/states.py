"""Where runs stand, once Slurm was asked. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.shared import states
from fairway_agent.shared.reports import StatesReport, StatesRequest
from fairway_agent.slurm.reconcile import reconcile_all

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; one squeue for all of the runs."""
    return states.reconciled(shared, request, reconcile_all)
