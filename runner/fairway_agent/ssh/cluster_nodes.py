"""A run's nodes of a plain cluster. Its tasks get some each, or GPUs and cores of one that they
share with other tasks of the run, but with no other run."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairway_agent import machine, processes
from fairway_agent import resources as devices_of
from fairway_agent.fanout import remote_exec
from fairway_agent.machine import Host
from fairway_agent.records import InvalidRecord
from fairway_agent.resources import Devices, NeverFits, ResourceRequest
from fairway_boot.cluster import Host as ClusterHost
from fairway_boot.cluster import hold_queue, known_hosts, try_node, user_of, waiting_runs
from fairway_boot.files import AgentError, try_lock

_MOST_NAMED = 3  # runs to name that use the wanted nodes
# Accounts below this number are system accounts; see `fairway_boot.imds`, which is slow to import.
_PEOPLE_FROM = 2000
_QUEUE = "fairway-queue"  # name of the folder on machines, beside Fairway's own


def queue_of(named: str, shared: Path, cluster: str) -> Path:
    """Returns the folder in which a cluster's runs queue: the one that the target names, or that
    the machines have created since the target was read, or else one among their own files. If
    several people have accounts, it contains `clusters/<cluster>` in place of each person's own.

    Raises AgentError if the machines have not created the named one: jobs start on the hosts that
    it names.
    """
    if not named:
        for directory in (*shared.parents, Path("/var/lib")):
            found = directory / _QUEUE
            if (found / "clusters" / cluster).is_dir() and _is_the_machines(found):
                return found
        return shared
    try:
        if _is_the_machines(Path(named)):
            return Path(named)
    except FileNotFoundError:
        message = f"the nodes have no folder {named} yet, in which people's runs queue"
        why = "they were made before `access.users` was there"
        hint = f"{why}: reimage them, as `fairway plan` says"
        raise AgentError("no-queue", message, hint) from None
    message = f"{named} is not the machines' own"
    raise AgentError("no-queue", message, "remove it, then restart the nodes")


def _is_the_machines(folder: Path) -> bool:
    """Returns True unless the folder belongs to another person."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and not os.getuid() != found.st_uid >= _PEOPLE_FROM


@dataclass
class Queue:
    """The place of one run in the queue of a cluster, and the nodes that it has. `began` is when it
    joined, in nanoseconds since 1970. `lost` maps nodes that failed this run to the times of their
    last announcements before, in seconds since 1970: a node is used again after a new announcement.
    `reason` is why the run waits."""

    shared: Path
    cluster: str
    run: str
    began: int = field(default_factory=time.time_ns)
    reason: str | None = None
    taken: dict[str, int] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    ticket: int | None = None

    @property
    def folder(self) -> Path:
        return self.shared / "clusters" / self.cluster

    def take(self, count: int, wanted: str = "", leave_out: Collection[str] = ()) -> list[Host]:
        """Takes that many nodes, which are this run's until they are given back; none if it has to
        wait, with the `reason`, which calls them `wanted`. Nodes to `leave_out` are not taken."""
        with self.turn() as has_turn:
            if not has_turn:
                return []
            known, usable = self.hosts()
            usable = [host for host in usable if host.name not in leave_out]
            free: list[Host] = []
            for host in usable:
                if len(free) == count:
                    break
                if (lock := try_node(self.folder / "nodes" / host.name)) is not None:
                    self.taken[host.name] = lock
                    free.append(Host(host.name, host.address))
            if len(free) == count:
                return free
            self.give_back(free)
            wanted = wanted or f"{count} node{'s' * (count != 1)}"
            self.reason = f"waits for {wanted}: {len(free)} free of {len(usable)} that are up"
            self.reason += self.used_by(usable)
            if len(usable) < count and len(known) > len(usable):
                silent = [host.name for host in known if host not in usable]
                self.reason += f" (silent, lost or unwell: {', '.join(silent)})"
            return []

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Holds the queue's lock, so that only this run takes nodes; yields False behind others."""
        for name in ("nodes", "queue"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with hold_queue(self.folder) as held:
            if held:
                self.reason = f"waits: {held}"
                yield False
                return
            if self.ticket is None:
                self.ticket = try_lock(self._ticket_path())
            if ahead := waiting_runs(self.folder / "queue", until=self._ticket_path().name):
                more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
                self.reason = f"waits behind {ahead[0]}{more}"
            yield not ahead

    def hosts(self) -> tuple[list[ClusterHost], list[ClusterHost]]:
        """Returns the known nodes, and those of them that are present and healthy."""
        known, now = known_hosts(self.shared, self.cluster), time.time()

        def is_usable(host: ClusterHost) -> bool:
            # Half a second, because the two ages were measured at different times.
            return host.is_well and now - host.age > self.lost.get(host.name, 0.0) + 0.5

        return known, list(filter(is_usable, known))

    def give_back(self, hosts: list[Host]) -> None:
        for host in hosts:
            os.close(self.taken.pop(host.name))

    def lose(self, names: list[str]) -> None:
        """Records that a task has lost these nodes, until they announce themselves again."""
        now = time.time()
        for host in known_hosts(self.shared, self.cluster):
            if host.name in names or host.address in names:
                self.lost[host.name] = now - host.age

    def rest(self) -> None:
        """Lets the runs behind this one go ahead: it wants no more nodes for now."""
        if self.ticket is not None:
            with suppress(FileNotFoundError):
                self._ticket_path().unlink()
            os.close(self.ticket)
            self.ticket = None

    def _ticket_path(self) -> Path:
        return self.folder / "queue" / f"{self.began:020d}-{self.run}"

    def used_by(self, hosts: list[ClusterHost]) -> str:
        """Names the other runs that use these nodes, each with its number of nodes, if known."""
        used = (user_of(self.folder / "nodes" / host.name) for host in hosts)
        found = Counter(run for run in used if run and run != self.run)
        words = [f"{run} uses {count}" for run, count in found.most_common(_MOST_NAMED)]
        others = len(found) - len(words)
        words += [f"{others} other runs the rest"] * (others > 0)
        return f"; {', '.join(words)}" if words else ""


def note_user(shared: Path, cluster: str, host: Host, run: str) -> None:
    """Records which run uses a node that the caller has locked."""
    # The file exists, maybe owned by another user: the kernel would refuse to open it with O_CREAT.
    with (shared / "clusters" / cluster / "nodes" / host.name).open("r+", encoding="utf-8") as file:
        file.truncate()
        file.write(run)


_SURE = 30.0  # seconds after which an accepted connection no longer proves that a node is alive


@dataclass
class _SharedNode:
    """A node whose `devices` tasks share: the numbers of those `used`, and how many `shares`."""

    host: Host
    devices: Devices
    used: frozenset[int] = frozenset()
    shares: int = 0

    def take(self, wanted: ResourceRequest) -> Host | None:
        """Returns the node with a share of it; None if other tasks use too much."""
        used = set(self.used)

        def take(number: int) -> bool:
            is_free = number not in used
            used.add(number)
            return is_free

        share = machine.choose(self.devices, wanted, take, used.discard)
        if share is None:
            return None
        self.used, self.shares = frozenset(used), self.shares + 1
        return replace(self.host, share=share)


@dataclass
class NodeAllocator:
    """Allocator that gives each task nodes of its own, or a share of one of the run's. `reached`
    says when each last accepted a connection, on the monotonic clock, `devices` what it has."""

    queue: Queue
    lends_nodes: bool = True
    pause: float | None = 0.5
    reached: dict[str, float] = field(default_factory=dict)
    devices: dict[str, Devices] = field(default_factory=dict)
    shared: dict[str, _SharedNode] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        return self.queue.reason

    def take(
        self, nodes: int, ranks: int, wanted: ResourceRequest | None = None
    ) -> list[Host] | None:
        """Allocates nodes, or a share of one, that accept connections; returns None if the task has
        to wait. Raises NeverFits if every node has less than is wanted."""
        if wanted is None:
            return self._own(nodes) or None
        host, small = self._share(wanted), dict[str, NeverFits]()
        while host is None and (new := self._own(1, f"{wanted} of a node", leave_out=small)):
            try:
                host = self._open(new[0], wanted)
            except NeverFits as unfit:
                small[new[0].name] = unfit
        if host is None and small and len(small) == len(self.queue.hosts()[0]):
            raise next(iter(small.values()))
        return None if host is None else self._reachable([host]) or None

    def _own(self, count: int, wanted: str = "", leave_out: Collection[str] = ()) -> list[Host]:
        taken = self.queue.take(count, wanted, leave_out)
        try:
            hosts = self._reachable(taken)
            for host in hosts:
                note_user(self.queue.shared, self.queue.cluster, host, self.queue.run)
        except OSError:  # for example a full disk: otherwise the run would wait for its own nodes
            self.queue.give_back([host for host in taken if host.name in self.queue.taken])
            raise
        return hosts

    def _share(self, wanted: ResourceRequest) -> Host | None:
        """Returns a share of a shared node; None without room, or if another run comes first."""
        with self.queue.turn() as has_turn:
            usable = {host.name for host in self.queue.hosts()[1]} if has_turn else set()
            for name, node in self.shared.items():
                if name in usable and (host := node.take(wanted)) is not None:
                    return host
        return None

    def _open(self, host: Host, wanted: ResourceRequest) -> Host | None:
        """Returns the first share of a node that the run has just got; None if the node does not
        report its devices, so that it counts as lost until it announces itself again."""
        try:
            devices = self.devices.get(host.name) or _devices(host)
            if devices is not None:
                self.devices[host.name] = devices
                machine.require_room(devices, wanted)
        except (OSError, NeverFits):
            self.queue.give_back([host])
            raise
        if devices is None:
            self.queue.lose([host.name])
            self.queue.give_back([host])
            return None
        self.shared[host.name] = _SharedNode(host, devices)
        # Even if another run came first meanwhile, it need not wait for a node that nobody uses.
        return self.shared[host.name].take(wanted)

    def _reachable(self, hosts: list[Host]) -> list[Host]:
        """Returns the nodes if all accept connections; none otherwise, and leaves out those that do
        not."""
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
        """Frees the nodes; lost ones are not used until they are back."""
        self.queue.lose(list(lost))
        for host in () if lost else hosts:
            self.reached[host.name] = time.monotonic()
        self._free(hosts)

    def _free(self, hosts: list[Host]) -> None:
        for host in hosts:
            if host.share is not None:
                node = self.shared[host.name]
                node.used -= frozenset(host.share.numbers)
                node.shares -= 1
                if node.shares:
                    continue
                del self.shared[host.name]
            self.queue.give_back([host])

    def rest(self) -> None:
        self.queue.rest()


def _devices(host: Host) -> Devices | None:
    """Returns the devices of a node; None if it does not report them."""
    if host.is_near:
        return devices_of.look()
    said = remote_exec.output_of(host.address, processes.program(devices_of.__name__))
    with suppress(ValueError, RecursionError, InvalidRecord):
        # Only the last line, because a login shell may print more before it.
        return Devices.from_json(json.loads(said.strip().rpartition("\n")[2]))
    return None
