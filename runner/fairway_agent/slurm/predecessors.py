"""The runs that a run comes after, as Slurm has them. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.shared import preparing, submissions
from fairway_agent.slurm import reconcile

if TYPE_CHECKING:
    from collections.abc import Sequence


def dependency(runs: Path, after: Sequence[str]) -> str:
    """What sbatch is told: their jobs must succeed; "" where all of them have.

    Fault where one has ended otherwise, or is there no more.
    """
    folders = [runs / Path(each).name for each in after]
    reconcile.reconcile_all(folders)
    jobs = []
    for folder in preparing.require_predecessors(folders):
        if (known := submissions.read(folder)) is not None:
            jobs += [part.job for part in known.parts if part.job]
    return f"afterok:{':'.join(jobs)}" if jobs else ""
