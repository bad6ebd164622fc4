"""The nodes of a cluster as the room in which a supervisor's tasks run. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.engines.ssh.node.queue import Queue, note_user
from fairway_runner.engines.ssh.node.task import HostTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.engines.local.task import Task


@dataclass
class Nodes:
    """A run's share of a cluster: each of its tasks has nodes of its own."""

    queue: Queue
    allots: bool = True
    pause: float = 0.5

    @property
    def reason(self) -> str | None:
        """What the next task waits for."""
        return self.queue.reason

    def take(self, task: Task, running: Sequence[Task]) -> bool:
        """Whether there are nodes for it, which it is told."""
        assert isinstance(task, HostTask), "a task that knows its nodes"
        task.nodes = self.queue.take(int(task.spec["nodes"]))
        for host in task.nodes:
            note_user(self.queue.shared, self.queue.cluster, host, self.queue.run)
        return bool(task.nodes)

    def give_back(self, task: Task) -> None:
        """Its nodes are free, and those that were lost are not used until they are back."""
        assert isinstance(task, HostTask), "a task that knows its nodes"
        self.queue.lose(task.lost())
        self.queue.give_back(task.nodes)

    def rest(self) -> None:
        """Those behind it in the queue may go on."""
        self.queue.rest()
