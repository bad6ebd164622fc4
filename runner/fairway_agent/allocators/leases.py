"""A run's share of the hosts of a cluster, of which its tasks get some. Standard library only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.allocators.queue import Queue, note_user
from fairway_agent.allocators.shared_nodes import SharedNodes
from fairway_agent.fanout import remote_exec

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.share import Wanted

_SURE = 30.0  # seconds after which a node may have died since it took a connection


@dataclass
class Nodes:
    """Each task of the run has nodes of its own, or a share of one.

    `reached` says of nodes when they last took a connection, on the monotonic clock.
    """

    queue: Queue
    lends_nodes: bool = True
    pause: float | None = 0.5
    reached: dict[str, float] = field(default_factory=dict)
    shared: SharedNodes = field(init=False)

    def __post_init__(self) -> None:
        self.shared = SharedNodes(self.queue)

    @property
    def reason(self) -> str | None:
        """What the next task waits for."""
        return self.queue.reason

    @property
    def no_capacity(self) -> bool:
        """Whether fewer nodes are up than that asks for."""
        return self.queue.no_capacity

    def take(self, nodes: int, ranks: int, wanted: Wanted | None = None) -> list[Host] | None:
        """Nodes for a task, or what it wants of one, all of which take connections; None where it
        is to wait."""
        if wanted is not None:
            host = self.shared.take(wanted)
            return (self._reachable([host]) if host else []) or None
        hosts = self._reachable(self.queue.take(nodes))
        for host in hosts:
            note_user(self.queue.shared, self.queue.cluster, host, self.queue.run)
        return hosts or None

    def _reachable(self, hosts: list[Host]) -> list[Host]:
        """The nodes, where all of them take connections; none, where one has died since it last
        announced itself. The next look leaves that one out."""
        now = time.monotonic()
        asked = [
            host.address
            for host in hosts
            if not host.is_near and now - self.reached.get(host.name, -_SURE) >= _SURE
        ]
        gone = remote_exec.unreachable(asked)
        if not gone:
            self.reached |= {host.name: now for host in hosts}
            return hosts
        self.queue.lose(gone)
        self._free(hosts)
        names = [host.name for host in hosts if host.address in gone]
        self.queue.reason = f"waits for other nodes than {', '.join(names)}: no connection"
        return []

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        """The nodes are free, and those that were lost are not used until they are back."""
        self.queue.lose(list(lost))
        for host in () if lost else hosts:
            self.reached[host.name] = time.monotonic()
        self._free(hosts)

    def _free(self, hosts: list[Host]) -> None:
        for host in hosts:
            if host.share is not None:
                self.shared.give_back(host)
        self.queue.give_back([host for host in hosts if host.share is None])

    def rest(self) -> None:
        """Those behind it in the queue may go on."""
        self.queue.rest()
