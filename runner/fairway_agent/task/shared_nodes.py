"""Nodes that all see the folder in which a run lies, and each have a local disk: those behind ssh,
of Slurm and of Kubernetes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import scratch
from fairway_agent.fanout.remote_exec import LOST
from fairway_agent.prepare import SETUP_FAILED, has_setup
from fairway_agent.task.task import Nodes

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.task.task import Task


def scratch_folder(task: Task) -> Path:
    """The task's own folder on each node's local disk."""
    return scratch.root() / "tasks" / f"{task.plan.run}-{task.name}"


def is_prepared(task: Task) -> bool:
    """True if the task's nodes need nothing but folders before its script."""
    return not task.plan.staged and not has_setup(task.run_folder)


class SharedNodes(Nodes):
    """Nodes that share the run's folder. Where a scheduler has chosen them, the attempts of the
    task run on the first of them."""

    IS_HERE: ClassVar = False
    LOSSES_ARE_FAILURES: ClassVar = False

    def prepare(self, task: Task) -> None:
        """Forgets what the attempt before has said of its nodes."""
        task.folder.mkdir(parents=True, exist_ok=True)
        for name in (SETUP_FAILED, LOST):
            (task.folder / name).unlink(missing_ok=True)

    def setup_failed(self, task: Task) -> bool:
        # Listed: a node that has looked for a file believes for a while that it is not there.
        return any(each.name == SETUP_FAILED for each in task.folder.iterdir())

    def leave(self, task: Task) -> None:
        super().leave(task)
        shutil.rmtree(scratch_folder(task), ignore_errors=True)

    def facts(self, task: Task) -> dict[str, Any]:
        names = ",".join(host.name for host in task.hosts)
        return {"node": names or None, "submission": task.submission}

    def session_folder(self, task: Task) -> Path:
        return scratch_folder(task) / f"mpi{task.attempt}"

    def directories(self, task: Task) -> dict[str, Path]:
        """Directories in the folder all nodes see; the one on each node's disk is in `contract`."""
        found = super().directories(task)
        del found["FAIRWAY_SCRATCH_DIR"]
        own = found["FAIRWAY_CHECKPOINT_DIR"]  # an absolute one stays itself
        found["FAIRWAY_CHECKPOINT_DIR"] = task.run_folder.parents[1] / "checkpoints" / own
        return found

    def contract(self, task: Task) -> dict[str, str]:
        """Variables with the paths of staged inputs and of the task's own folders on each node."""
        shared = task.run_folder.parents[1]
        inputs = {
            f"FAIRWAY_INPUT_{entry.name.upper()}": str(scratch.input_folder(shared, entry))
            for entry in task.plan.staged
        }
        own = {"FAIRWAY_SCRATCH_DIR": str(scratch_folder(task))}
        return {**inputs, **own, "FAIRWAY_TASK_FOLDER": str(task.folder), "FAIRWAY_MPI_ARGS": ""}
