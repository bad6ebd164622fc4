"""A run's share of the hosts of a cluster, of which its tasks get some: whole nodes, or GPUs and
cores of nodes that several runs use at once.

`<shared>/clusters/<cluster>/nodes/<name>`, which a run that has the whole node holds alone, is
held together by those that have a share of it; each of them also holds `shares/<name>/<run>`, and
the devices themselves in `shares/<name>.lent`, see `ledger`. Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairway_agent import bundle, record
from fairway_agent import devices as devices_of
from fairway_agent.allocators import ledger
from fairway_agent.allocators.ledger import Ledger
from fairway_agent.allocators.queue import Queue, note_user
from fairway_agent.devices import Devices
from fairway_agent.fanout import remote_exec
from fairway_agent.fields import Unfit
from fairway_agent.record import try_lock
from fairway_agent.share import NeverFits

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.share import Share, Wanted

_AT_ONCE = 16  # nodes that are asked at the same time
_SURE = 30.0  # seconds after which a node may have died since it took a connection


@dataclass
class _Used:
    """A node of which the run has shares: the locks that say so, and how many shares."""

    locks: list[int]
    shares: int = 0


@dataclass
class SharedNodes:
    """The shares that one run has. `devices` are what nodes have said of themselves."""

    queue: Queue
    devices: dict[str, Devices] = field(default_factory=dict)
    used: dict[str, _Used] = field(default_factory=dict)

    def take(self, wanted: Wanted) -> Host | None:
        """A node with a share of it; None where the run is to wait, with the queue's `reason`.
        NeverFits where all nodes are too small."""
        host = self._take(wanted)
        while host is None and self._ask():
            host = self._take(wanted)
        return host

    def _take(self, wanted: Wanted) -> Host | None:
        small: dict[str, NeverFits] = {}
        self.queue.no_capacity = False
        with self.queue.turn() as has_turn:
            if not has_turn:
                return None
            known, usable = self.queue.hosts()
            for host in usable:
                if host.name not in self.devices:
                    continue
                try:
                    share = self._share(host, wanted)
                except NeverFits as unfit:
                    small[host.name] = unfit
                    continue
                if share is not None:
                    return replace(host, share=share)
        if known and len(small) == len(known):
            raise small[known[0].name]
        up = f"none of {len(usable)} that are up"
        self.queue.reason = f"waits for {wanted} of a node: {up} has so much free"
        self.queue.reason += self.queue.used_by(usable)
        self.queue.no_capacity = len(usable) == len(small)
        return None

    def _share(self, host: Host, wanted: Wanted) -> Share | None:
        ledger.require_room(self.devices[host.name], wanted)
        used = self.used.get(host.name) or self._enter(host.name)
        if used is None:
            return None
        share = Ledger(self._folder / f"{host.name}.lent").take(self.devices[host.name], wanted)
        used.shares += share is not None
        if used.shares:
            self.used[host.name] = used
        else:
            _close(used)
        return share

    def give_back(self, host: Host) -> None:
        """Others may have the share, and the whole node where it was the last one."""
        assert host.share is not None, "it was taken with a share"
        ledger.give_back(host.share)
        used = self.used[host.name]
        used.shares -= 1
        if not used.shares:
            _close(self.used.pop(host.name))

    @property
    def _folder(self) -> Path:
        return self.queue.folder / "shares"

    def _enter(self, name: str) -> _Used | None:
        """Says that this run has shares of the node; None where somebody has the whole of it."""
        node = try_lock(self.queue.folder / "nodes" / name, shared=True)
        if node is None:
            return None
        record.make_folder(self._folder / name)
        run = try_lock(self._folder / name / self.queue.run)
        return _Used([node] if run is None else [node, run])

    def _ask(self) -> bool:
        """Asks some of the nodes of which it is not known yet what they have; whether one of them
        has said it. One that says nothing is lost until it announces itself again."""
        _, usable = self.queue.hosts()
        asked = [host for host in usable if host.name not in self.devices][:_AT_ONCE]
        near = {host.name: devices_of.look() for host in asked if host.is_near}
        far = [host for host in asked if not host.is_near]
        said = remote_exec.printed(
            [host.address for host in far], bundle.program(devices_of.__name__)
        )
        found = {host.name: _parsed(said[host.address]) for host in far}
        known = {name: each for name, each in {**near, **found}.items() if each is not None}
        self.queue.lose([host.name for host in asked if host.name not in known])
        self.devices |= known
        return bool(known)


def _parsed(text: str) -> Devices | None:
    """What a node has said; a login shell may print more before it."""
    try:
        return Devices.from_json(json.loads(text.strip().rpartition("\n")[2]))
    except (ValueError, RecursionError, Unfit):
        return None


def _close(used: _Used) -> None:
    for lock in used.locks:
        os.close(lock)


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
