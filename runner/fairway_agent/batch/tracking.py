"""What the other tasks of a run, and its own next attempts, are told of a task of a pool: in the
folder that all nodes mount, where a job has limits or tells apart why attempts end. Standard
library only."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import limits, record, state_files
from fairway_agent.batch.ending import FILE, Ending
from fairway_agent.shared import watch
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from fairway_agent.batch.folders import Folders
    from fairway_agent.limits import Held, Over
    from fairway_agent.plan import RunPlan
    from fairway_agent.task_state import TaskState

_ALIVE = "alive"
_PAUSE = 10.0  # seconds between two signs of life


def is_tracked(plan: RunPlan) -> bool:
    """Whether a task of the run leaves word of itself."""
    limited = plan.max_duration is not None or plan.max_cost is not None
    return limited or plan.idle_gpu is not None or bool(plan.retry_limits)


@dataclass
class PoolWatch(watch.Watch):
    """The limits of a run whose tasks leave word in its `folder`; its `kept` record is on each
    node."""

    kept: Path = field(default_factory=Path)

    @property
    def record(self) -> Path:
        """On this node."""
        return self.kept

    def begin(self) -> None:
        """Where that cannot be written, the run has no limit as far as this task sees."""
        with suppress(OSError, Fault):
            super().begin()

    def is_over(self) -> bool:
        """Not where nobody can tell."""
        with suppress(OSError, Fault):
            return super().is_over()
        return False

    def held(self, now: float) -> Held:
        """One whose node is lost says nothing more, and may wait long for another."""
        return limits.held(self.folder, self.nodes, now, _seen)


def watch_of(folders: Folders, plan: RunPlan, submission: int) -> PoolWatch:
    """What looks whether the run is over a limit."""
    if is_tracked(plan):
        with suppress(OSError):
            folders.shared.mkdir(parents=True, exist_ok=True)
    return PoolWatch(folders.shared, plan, submission, kept=folders.record)


@dataclass
class Track:
    """The word of the task `name`; none is left unless `is_on`."""

    folders: Folders
    name: str
    is_on: bool
    due: float = 0.0

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.folders.shared / "tasks" / self.name

    def read(self) -> TaskState | None:
        """Where the attempt before has left it; `held` is until its last sign of life."""
        return state_files.read_task(self.folder) if self.is_on else None

    def write(self, status: TaskState) -> None:
        """Leaves word."""
        if self.is_on:
            with suppress(OSError):  # a disk that is full costs the word
                self.folder.mkdir(parents=True, exist_ok=True)
                state_files.write(self.folder, status)

    def lived(self, status: TaskState) -> float:
        """For how many seconds an attempt has had its nodes that was cut off."""
        seen, started = _seen(self.folder), status.started
        return max(0.0, seen - started) if seen is not None and started is not None else 0.0

    def keep(self, now: float) -> None:
        """Gives a sign of life when that is due, on the monotonic clock."""
        if self.is_on and now >= self.due:
            self.due = now + _PAUSE
            with suppress(OSError):  # a disk that is full costs a sign
                record.write_bytes(self.folder / _ALIVE, f"{time.time():.0f}".encode("ascii"))


def write_ending(folders: Folders, status: TaskState, over: Over | None = None) -> None:
    """Writes how the task has ended, or that its GPUs are idle, where others look for it."""
    names = ("AZ_BATCH_JOB_ID", "AZ_BATCH_NODE_ID")
    job, node = (os.environ.get(name, "") for name in names)
    limit, why = (over.limit, over.reason) if over is not None else (None, None)
    logs = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs")
    ending = Ending(job, folders.task, node, status, limit, why)
    with suppress(OSError):  # as above
        logs.mkdir(exist_ok=True)
        record.write_json(logs / FILE, ending.to_json())


def _seen(folder: Path) -> float | None:
    """When there was the last sign of life of a task; None where there was none."""
    with suppress(OSError, ValueError):
        return float((folder / _ALIVE).read_text(encoding="ascii"))
    return None
