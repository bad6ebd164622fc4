"""Where runs stand, once Slurm was asked. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from fairway_runner.engines.remote.node import states
from fairway_runner.engines.slurm.node.settle import settle_all

if TYPE_CHECKING:
    from pathlib import Path


def answer(shared: Path, request: dict[str, Any], payload: IO[bytes]) -> dict[str, Any]:
    """See `remote.node.states`; one squeue for all of the runs."""
    settle_all([shared / "runs" / run for run in request["runs"]])
    found: dict[str, Any] = states.answer(shared, request, payload)
    return found
