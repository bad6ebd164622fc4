"""A run's nodes of a plain cluster: its tasks get some each, or GPUs and cores of one that they
share with others of the run, and of no other run. Standard library only.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairway_agent import bundle
from fairway_agent import devices as devices_of
from fairway_agent.allocators import ledger
from fairway_agent.allocators.queue import Queue, note_user
from fairway_agent.devices import Devices
from fairway_agent.fanout import remote_exec
from fairway_agent.fields import Unfit
from fairway_agent.share import NeverFits

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.share import Share, Wanted

_SURE = 30.0  # seconds after which a node may have died since it took a connection


@dataclass
class _SharedNode:
    """A node whose `devices` tasks of the run share: the numbers of those that are `used`, and how
    many tasks have some."""

    host: Host
    devices: Devices
    used: frozenset[int] = frozenset()
    shares: int = 0

    def take(self, wanted: Wanted) -> Host | None:
        """The node with a share of it; None where other tasks have too much."""
        used = set(self.used)

        def take(number: int) -> bool:
            is_free = number not in used
            used.add(number)
            return is_free

        share = ledger.choose(self.devices, wanted, take, used.discard)
        if share is None:
            return None
        self.used, self.shares = frozenset(used), self.shares + 1
        return replace(self.host, share=share)

    def give_back(self, share: Share) -> None:
        """A task has ended that had this."""
        self.used -= frozenset(share.numbers)
        self.shares -= 1


@dataclass
class Nodes:
    """Each task of the run has nodes of its own, or a share of one that the run has.

    `reached` says of nodes when they last took a connection, on the monotonic clock, and `devices`
    what they have said of themselves.
    """

    queue: Queue
    lends_nodes: bool = True
    pause: float | None = 0.5
    reached: dict[str, float] = field(default_factory=dict)
    devices: dict[str, Devices] = field(default_factory=dict)
    shared: dict[str, _SharedNode] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """What the next task waits for."""
        return self.queue.reason

    def take(self, nodes: int, ranks: int, wanted: Wanted | None = None) -> list[Host] | None:
        """Nodes for a task, or what it wants of one, all of which take connections; None where it
        is to wait. NeverFits where a node has less than is wanted."""
        if wanted is None:
            return self._own(nodes) or None
        host = self._share(wanted)
        while host is None and (new := self._own(1, f"{wanted} of a node")):
            host = self._open(new[0], wanted)
        return None if host is None else self._reachable([host]) or None

    def _own(self, count: int, wanted: str = "") -> list[Host]:
        hosts = self._reachable(self.queue.take(count, wanted))
        for host in hosts:
            note_user(self.queue.shared, self.queue.cluster, host, self.queue.run)
        return hosts

    def _share(self, wanted: Wanted) -> Host | None:
        """A share of one of the nodes that tasks share; None where none has so much free, or
        another run comes first."""
        with self.queue.turn() as has_turn:
            usable = {host.name for host in self.queue.hosts()[1]} if has_turn else set()
            for name, node in self.shared.items():
                if name in usable and (host := node.take(wanted)) is not None:
                    return host
        return None

    def _open(self, host: Host, wanted: Wanted) -> Host | None:
        """The first share of a node that the run has just got; None where it does not say what it
        has, so that it is lost until it announces itself again."""
        devices = self.devices.get(host.name) or _devices(host)
        if devices is None:
            self.queue.lose([host.name])
            self.queue.give_back([host])
            return None
        self.devices[host.name] = devices
        try:
            ledger.require_room(devices, wanted)
        except NeverFits:
            self.queue.give_back([host])
            raise
        self.shared[host.name] = _SharedNode(host, devices)
        # A run that has come before this one meanwhile does not wait for a node that nobody uses.
        return self.shared[host.name].take(wanted)

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
                node = self.shared[host.name]
                node.give_back(host.share)
                if node.shares:
                    continue
                del self.shared[host.name]
            self.queue.give_back([host])

    def rest(self) -> None:
        """Those behind it in the queue may go on."""
        self.queue.rest()


def _devices(host: Host) -> Devices | None:
    """The devices of a node; None where it does not tell them."""
    if host.is_near:
        return devices_of.look()
    said = remote_exec.printed([host.address], bundle.program(devices_of.__name__))
    try:  # a login shell may print more before it
        return Devices.from_json(json.loads(said[host.address].strip().rpartition("\n")[2]))
    except (ValueError, RecursionError, Unfit):
        return None
