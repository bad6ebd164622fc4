"""Nodes that Azure has no room for, or that never join, are not asked for again at once.

Slurm would ask for them every few minutes. For a job that needs more nodes than there are, that
keeps the others awake and paid for, as each try resets the clock by which idle nodes go; and
instances that never become nodes would be bought for ever. So the nodes of the partition that
are not there are down for a while, each time for twice as long; those that are there take jobs.
After some rounds in which no instance became a node, the whole partition is down.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
_LONGEST = 3600.0
# Rounds of instances that were paid for and never became nodes.
_MOST_MISSES = 3
_GONE = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
_COMING = frozenset({"POWERING_UP", "POWER_UP"})


@dataclass
class Hold:
    """Until when a partition's sleeping nodes are left alone, and why.

    `shortages` and `misses` are rounds in a row: Azure made too few instances, since `since`,
    or they never became nodes. A `closed` partition is down until somebody opens it.
    """

    until: float = 0.0
    reason: str = ""
    shortages: int = 0
    since: float = 0.0
    misses: int = 0
    closed: bool = False

    @property
    def active(self) -> bool:
        """Sleeping nodes are left alone now."""
        return self.closed or time.time() < self.until

    def short(self, settings: Settings, refused: int, reason: str) -> str:
        """Azure made no instance for that many nodes; answers with the reason for them."""
        self.since = self.since if self.shortages else time.time()
        self._wait(settings, self.shortages)
        self.shortages += 1
        since, again = _clock(self.since), _clock(self.until)
        self.reason = f"Azure: nodes missing: {refused}, since {since}, next try {again}: {reason}"
        return self.reason

    def served(self) -> None:
        """Azure made all that it was asked for."""
        self.shortages = 0

    def missed(self, settings: Settings, count: int, trouble: str) -> str:
        """Instances never became nodes: a round more; answers with the reason for their nodes."""
        self._wait(settings, self.misses)
        self.misses += 1
        self.closed = self.misses >= _MOST_MISSES
        what = f"fairway: instances that never joined: {count}{trouble and f' ({trouble})'}"
        then = "the partition is down" if self.closed else f"next try {_clock(self.until)}"
        self.reason = f"{what}, round {self.misses} of {_MOST_MISSES}: {then}"
        return self.reason

    def joined(self) -> None:
        """An instance became a node."""
        self.misses = 0

    def open(self) -> None:
        """Somebody has put the partition up again: it is as if nothing had been."""
        self.until, self.reason, self.shortages, self.misses = 0.0, "", 0, 0
        self.closed = False

    def _wait(self, settings: Settings, before: int) -> None:
        longest = max(_LONGEST, settings.hold)
        self.until = time.time() + min(longest, settings.hold * 2**before)


def apply(settings: Settings, partition: str, hold: Hold, among: Iterable[str] = ()) -> None:
    """Takes the sleeping nodes of the partition out of use while it is held, and closes it.

    slurmctld forgets what a node's state was when it lets it be deleted, so that nodes on their
    way out are named by `among`, by the program that it calls then.
    """
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
        commands.update_partition(settings, partition, "down")


def reopened(settings: Settings, partition: str, hold: Hold) -> bool:
    """Somebody has put a closed partition up again."""
    return hold.closed and commands.partition_is_up(settings, partition)


def releasable(settings: Settings, partition: str, hold: Hold) -> list[str]:
    """Nodes that are cloud again and still down or drained: the next instance is a new one.

    What a person took out of use stays so, and all stay while the partition is held.
    """
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
    """Drains nodes again that a person drained: slurmctld forgets it when it deletes a node.

    The reason outlives it, and goes when somebody resumes the node.
    """
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
        _log.info("%s stays drained: %s", name, nodes[name].reason)
        commands.update_nodes(settings, [name], "drain", nodes[name].reason)
    return kept


def _clock(moment: float) -> str:
    return time.strftime("%H:%M UTC", time.gmtime(moment))
