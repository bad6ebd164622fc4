"""Registry of the instances behind nodes: a file for each scale set, on the disk that survives the
VM."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot import files
from fairway_boot.slurm import commands
from fairway_boot.slurm.commands import HARDWARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
_LONGEST = 3600.0
# Rounds of instances that were paid for but never became nodes.
_MOST_MISSES = 3
_GONE = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
_COMING = frozenset({"POWERING_UP", "POWER_UP"})


@dataclass
class Hold:
    """Pause in which a partition's sleeping nodes are left alone, and the reason. `shortages` and
    `misses` are consecutive rounds in which Azure created too few instances, since `since`, or they
    never became nodes. A `closed` partition is down until somebody opens it."""

    until: float = 0.0
    reason: str = ""
    shortages: int = 0
    since: float = 0.0
    misses: int = 0
    closed: bool = False

    @property
    def active(self) -> bool:
        """True if sleeping nodes are left alone now."""
        return self.closed or time.time() < self.until

    def short(self, settings: Settings, refused: int, reason: str) -> None:
        """Records that Azure created no instance for that many nodes, and why."""
        self.since = self.since if self.shortages else time.time()
        self._wait(settings, self.shortages)
        self.shortages += 1
        since, again = _clock(self.since), _clock(self.until)
        self.reason = f"Azure: nodes missing: {refused}, since {since}, next try {again}: {reason}"

    def missed(self, settings: Settings, count: int, trouble: str) -> None:
        """Records another round of instances that never became nodes."""
        self._wait(settings, self.misses)
        self.misses += 1
        self.closed = self.misses >= _MOST_MISSES
        what = f"fairway: instances that never joined: {count}{trouble and f' ({trouble})'}"
        then = "the partition is down" if self.closed else f"next try {_clock(self.until)}"
        self.reason = f"{what}, round {self.misses} of {_MOST_MISSES}: {then}"

    def _wait(self, settings: Settings, before: int) -> None:
        longest = max(_LONGEST, settings.hold)
        self.until = time.time() + min(longest, settings.hold * 2**before)


def apply(settings: Settings, partition: str, hold: Hold, among: Iterable[str] = ()) -> None:
    """Takes the sleeping nodes of the partition out of use while it is held, and closes the
    partition if the hold is `closed`. slurmctld forgets a node's state when it lets it be deleted,
    so that the program that it calls then names the nodes on their way out in `among`."""
    if not hold.active:
        return
    nodes = commands.nodes(settings)
    going = set(among)
    asleep = [
        name
        for name, node in nodes.items()
        if commands.partition_of(name) == partition
        and ("POWERED_DOWN" in node.state or (name in going and node.state & _GONE))
        and "IDLE" in node.state
        and not node.state & (_COMING | {"DRAIN"})
    ]
    commands.update_nodes(settings, asleep, "down", hold.reason)
    if hold.closed:
        commands.run_command(
            settings, "scontrol", "update", f"partitionname={partition}", "state=down"
        )


def releasable(settings: Settings, partition: str, hold: Hold) -> list[str]:
    """Returns the nodes in the cloud state that are still down or drained: the next instance is a
    new one. Nodes that a person took out of use stay so, and all stay while the partition is
    held."""
    if hold.active:
        return []
    return [
        name
        for name, node in commands.nodes(settings).items()
        if commands.partition_of(name) == partition
        and "POWERED_DOWN" in node.state
        and node.state & {"DOWN", "DRAIN"}
        and not node.is_a_persons(settings.user)
    ]


def keep_drained(settings: Settings, names: Iterable[str]) -> list[str]:
    """Drains nodes again that a person drained: slurmctld forgets it when it deletes a node. The
    reason outlives that, and goes when somebody resumes the node. It names the person, as the
    account that gave it is now slurmctld's."""
    nodes = commands.nodes(settings)
    kept = [
        name
        for name in names
        if name in nodes
        and nodes[name].is_a_persons(settings.user)
        and nodes[name].state & _GONE
        and not nodes[name].state & {"DRAIN", "DOWN"}
    ]
    for name in kept:
        reason = nodes[name].reason
        if not reason.startswith(commands.DRAINED):
            reason = f"{commands.DRAINED}{nodes[name].by}: {reason}"
        _log.info("%s stays drained: %s", name, reason)
        commands.update_nodes(settings, [name], "drain", reason)
    return kept


def _clock(moment: float) -> str:
    return time.strftime("%H:%M UTC", time.gmtime(moment))


@dataclass
class Claim:
    """The instance behind a node: its number and its unique id, its address, True if its slurmd has
    ever answered slurmctld, and its physical host."""

    instance: str
    vm: str
    address: str = ""
    joined: bool = False
    host: str = ""


@dataclass
class NodeRegistry:
    """The scheduler's record of the nodes of one scale set.

    `wanted` are names that Slurm asked for and no instance has yet, `claims` those that an instance
    has. `leaving` are instances to be deleted, and `unnamed` those seen without a name; each with
    the time. `troubles` is what instances report missing, by their numbers, and `hold` says if
    Slurm may ask for more of them now. `hosts` are physical hosts whose hardware failed, with the
    reason and the time.
    """

    wanted: dict[str, float] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    leaving: dict[str, float] = field(default_factory=dict)
    unnamed: dict[str, float] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    hold: Hold = field(default_factory=Hold)
    hosts: dict[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def oldest(self) -> list[str]:
        """The wanted names, those that have waited longest first."""
        return sorted(
            self.wanted, key=lambda each: (self.wanted[each], int(each.rpartition("-")[2]))
        )

    def want(self, names: list[str]) -> None:
        """Records that Slurm wants these nodes; one that has an instance already keeps it."""
        for name in names:
            if name not in self.claims:
                self.wanted.setdefault(name, time.time())

    def release(self, names: list[str]) -> list[str]:
        """Records that Slurm is done with these nodes; returns the instances to delete."""
        for name in names:
            self.wanted.pop(name, None)
            if claim := self.claims.pop(name, None):
                self.leaving[claim.instance] = time.time()
        return sorted(self.leaving)

    def claim(self, vm: str, instance: str, address: str, host: str = "") -> str | None:
        """Returns the name for that VM: the one it has, or the wanted one that waited longest."""
        for name, claim in self.claims.items():
            if claim.vm == vm:
                claim.address, claim.host = address, host
                return name
        if instance in self.leaving or not self.wanted:
            return None
        name = self.oldest[0]
        del self.wanted[name]
        self.unnamed.pop(instance, None)
        self.troubles.pop(instance, None)
        self.claims[name] = Claim(instance, vm, address, host=host)
        return name

    def fail_host(self, host: str, reason: str) -> None:
        """Records that the hardware of a host failed; the first time recorded stays."""
        if host:
            since = self.hosts.get(host, ("", time.time()))[1]
            self.hosts[host] = (reason, since)

    def refusal(self, vm: str, host: str, longest: float) -> str:
        """Returns why a VM on that host becomes no node; "" if it may, or is one already."""
        before = time.time() - longest
        self.hosts = {name: bad for name, bad in self.hosts.items() if bad[1] > before}
        if host not in self.hosts or any(claim.vm == vm for claim in self.claims.values()):
            return ""
        reason, since = self.hosts[host]
        day = time.strftime("%Y-%m-%d", time.gmtime(since))
        why = reason.removeprefix("fairway: ").removeprefix(HARDWARE)
        return f"host {host} failed on {day}: {why}"

    def trouble_of(self, node_or_instance: str) -> str:
        """Returns what the instance, or the node's, reports missing; "" if it is healthy."""
        claim = self.claims.get(node_or_instance)
        return self.troubles.get(claim.instance if claim else node_or_instance, "")

    def waiting_for(self, before: float) -> list[str]:
        """Returns wanted nodes whose instances lack something, or were silent since before that
        time."""
        lacking = sum(each in self.troubles for each in self.unnamed)
        silent = sum(s < before for each, s in self.unnamed.items() if each not in self.troubles)
        for_long = [each for each in self.oldest if self.wanted[each] < before]
        return self.oldest[: max(lacking, min(lacking + silent, len(for_long)))]

    def see(self, nameless: list[str]) -> None:
        """Records the instances without a name; one that was seen before keeps its time."""
        now = time.time()
        self.unnamed = {each: self.unnamed.get(each, now) for each in nameless}

    def dismiss(self, instance: str) -> None:
        """Marks an instance without a name for deletion; it gets none any more."""
        self.unnamed.pop(instance, None)
        self.leaving[instance] = time.time()

    def give_up(self, count: int) -> list[str]:
        """Removes that many names from the wanted ones, the most recent requests first."""
        given_up = self.oldest[len(self.wanted) - count :]
        for name in given_up:
            del self.wanted[name]
        return given_up


@contextmanager
def open_registry(settings: Settings, scale_set: str) -> Iterator[NodeRegistry]:
    """Opens the registry of that scale set for one program at a time, and saves it at the end."""
    with locked(settings, f"{scale_set}.registry") as folder:
        file = folder / f"{scale_set}.json"
        data = files.read_json(file)
        claims = {name: Claim(**claim) for name, claim in data.pop("claims", {}).items()}
        hold = Hold(**data.pop("hold", {}))
        hosts = {name: (str(bad[0]), float(bad[1])) for name, bad in data.pop("hosts", {}).items()}
        registry = NodeRegistry(claims=claims, hold=hold, hosts=hosts, **data)
        before = asdict(registry)
        yield registry
        if asdict(registry) != before:
            # Written to disk before anybody is told.
            files.write_json(file, asdict(registry), durable=True)


@contextmanager
def locked(settings: Settings, name: str) -> Iterator[Path]:
    """Holds the lock of that name in the folder of the scheduler's programs; yields the folder."""
    folder = Path(settings.state)
    folder.mkdir(parents=True, exist_ok=True)
    with files.hold_lock(folder / name):
        yield folder
