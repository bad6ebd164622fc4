"""Where runs stand, once the API server was asked. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.kubernetes.api import Api
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.shared import states
from fairway_agent.shared.reports import StatesReport, StatesRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; one look at the API server for all of the runs."""
    return states.reconciled(shared, request, lambda folders: reconcile_all(Api(), folders))
