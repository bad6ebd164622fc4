"""The runs that a run comes after, as Slurm has them. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import record, state_files
from fairway_agent.faults import Fault
from fairway_agent.slurm import reconcile, submissions

if TYPE_CHECKING:
    from collections.abc import Sequence


def dependency(runs: Path, after: Sequence[str]) -> str:
    """What sbatch is told: their jobs must succeed; "" where all of them have.

    Fault where one has ended otherwise, or is there no more.
    """
    folders = [runs / Path(each).name for each in after]
    reconcile.settle_all(folders)
    jobs = []
    for folder in folders:
        found = state_files.read_run(folder)
        state = "was removed" if found is None else found.state
        if state == "succeeded":
            continue
        known = submissions.read(folder)
        if state not in record.GOING_STATES or known is None:
            message = f"`after`: {folder.name} {state}"
            hint = f"run it again first: fairway retry {folder.name}"
            raise Fault("failed-predecessor", message, hint, 2)
        jobs += [part.job for part in known.parts if part.job]
    return f"afterok:{':'.join(jobs)}" if jobs else ""
