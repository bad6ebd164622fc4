"""The nodes of a cluster as the room in which a supervisor's tasks run. Standard library only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.allocators.queue import Queue, note_user
from fairway_agent.fanout import shell
from fairway_agent.ssh.task import HostTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.task import Task

_SURE = 30.0  # seconds after which a node may have died since it took a connection


@dataclass
class Nodes:
    """A run's share of a cluster: each of its tasks has nodes of its own.

    `reached` says of nodes when they last took a connection, on the monotonic clock.
    """

    queue: Queue
    allots: bool = True
    pause: float = 0.5
    reached: dict[str, float] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """What the next task waits for."""
        return self.queue.reason

    def take(self, task: Task, running: Sequence[Task]) -> bool:
        """Whether there are nodes for it, which it is told."""
        assert isinstance(task, HostTask), "a task that knows its nodes"
        task.nodes = self._reachable(self.queue.take(task.spec.nodes))
        for host in task.nodes:
            note_user(self.queue.shared, self.queue.cluster, host, self.queue.run)
        return bool(task.nodes)

    def _reachable(self, hosts: list[Host]) -> list[Host]:
        """The nodes, where all of them take connections; none, where one has died since it last
        announced itself. The next look leaves that one out."""
        now = time.monotonic()
        asked = [
            host.address
            for host in hosts
            if not host.is_near and now - self.reached.get(host.name, -_SURE) >= _SURE
        ]
        gone = shell.unreachable(asked)
        if not gone:
            self.reached |= {host.name: now for host in hosts}
            return hosts
        self.queue.lose(gone)
        self.queue.give_back(hosts)
        names = [host.name for host in hosts if host.address in gone]
        self.queue.reason = f"waits for other nodes than {', '.join(names)}: no connection"
        return []

    def give_back(self, task: Task) -> None:
        """Its nodes are free, and those that were lost are not used until they are back."""
        assert isinstance(task, HostTask), "a task that knows its nodes"
        self.queue.lose(task.lost())
        for host in () if task.lost() else task.nodes:
            self.reached[host.name] = time.monotonic()
        self.queue.give_back(task.nodes)

    def rest(self) -> None:
        """Those behind it in the queue may go on."""
        self.queue.rest()
