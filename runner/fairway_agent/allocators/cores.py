"""What limits how many tasks of a run go on at the same time. Standard library only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.task import Task


class Room(Protocol):
    """Where tasks run, and whether there is room for another."""

    allots: bool
    """Whether tasks get nodes of their own, for which they may have to wait, and on which the
    job's setup is each task's own business."""
    pause: float
    """Seconds until it is worth asking again."""
    reason: str | None
    """What the last task that was not let in waits for."""

    def take(self, task: Task, running: Sequence[Task]) -> bool:
        """Whether the task can start now, beside those that are running."""

    def give_back(self, task: Task) -> None:
        """The task has ended."""

    def rest(self) -> None:
        """No task wants to start."""


@dataclass
class Cores:
    """This machine: a task takes a core a rank, and one at least goes on however large it is."""

    allots: bool = False
    pause: float = 0.0
    reason: str | None = None

    def take(self, task: Task, running: Sequence[Task]) -> bool:
        """Whether its ranks find cores that no other task uses."""
        if not running:
            return True
        cores = len(os.sched_getaffinity(0))
        used = sum(min(each.ranks, cores) for each in running)
        return used + task.ranks <= cores

    def give_back(self, task: Task) -> None:
        """Nothing to be done."""

    def rest(self) -> None:
        """Nothing to be done."""
