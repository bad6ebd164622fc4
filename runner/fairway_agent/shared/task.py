"""A task whose run lies in the folder that all nodes see, and which has whole nodes for itself.

Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import scratch
from fairway_agent.task import Task

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class ClusterTask(Task):
    """What tasks have in common behind ssh and in Slurm: where their files lie on a node."""

    @property
    def shared(self) -> Path:
        """The folder that all nodes see."""
        return self.run_folder.parents[1]

    @property
    def scratch_folder(self) -> Path:
        """Its own folder on each node's local disk."""
        return scratch.root() / "tasks" / f"{self.plan.run}-{self.name}"

    def _session_folder(self) -> Path:
        """On each node's own disk, which goes with the task."""
        return self.scratch_folder / f"mpi{self.attempt}"

    def _checkpoint_directory(self) -> Path:
        own = super()._checkpoint_directory()
        return self.shared / "checkpoints" / own  # which an absolute path is itself

    def _contract(self) -> dict[str, str]:
        inputs = {
            f"FAIRWAY_INPUT_{entry.name.upper()}": str(scratch.input_folder(self.shared, entry))
            for entry in self.plan.staged
        }
        return {
            **super()._contract(),
            **inputs,
            "FAIRWAY_SCRATCH_DIR": str(self.scratch_folder),
            "FAIRWAY_TASK_FOLDER": str(self.folder),
        }
