"""What slurmctld says of nodes and is told, and how it writes many of them in one word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.faults import Fault
from fairway_agent.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_agent.slurm.autoscale.settings import Settings

_PART = re.compile(r"(?P<stem>[^\[,]+)(?:\[(?P<numbers>[^\]]*)\])?(?:,|$)")
# Of `scontrol -o show node`; a flag follows the state after a plus sign.
_STATE = re.compile(r"NodeName=(?P<name>\S+).*? State=(?P<state>\S+)")
_REASON = re.compile(r" Reason=(?P<text>.*?) \[(?P<by>[^@\]]*)@[^\]]*\]")
HARDWARE = "hardware: "
"""What the health check says before anything else where it is its machine's fault, and not that of
a file system, say."""
# What Fairway and slurmctld write as reasons; the latter's are from its source, 22.05 to 25.11.
_REASONS = (
    *("fairway:", "Azure:", "Not responding", "ResumeTimeout reached", "Kill task failed"),
    *("Node unexpectedly rebooted", "reboot", "Prolog error", "Epilog error", "Low "),
    *("batch job complete failure", "Duplicate jobid", "gres/", "NO NETWORK ADDRESS FOUND"),
)


class CommandFailed(Exception):
    """A command of Slurm's did not do what it was asked for; the text is its reason."""


@dataclass(frozen=True)
class Node:
    """What slurmctld says of a node: its state and flags, in capitals, the last reason that was
    given, and the user who gave it."""

    state: frozenset[str]
    reason: str = ""
    by: str = ""

    @property
    def has_bad_hardware(self) -> bool:
        """Whether the health check drained it for its machine's fault."""
        return "DRAIN" in self.state and self.reason.startswith(f"fairway: {HARDWARE}")

    def is_a_persons(self, slurm_user: str) -> bool:
        """Whether a person gave the reason, and neither slurmctld nor a program of Fairway's."""
        by_slurm = self.by == slurm_user != "root"
        return bool(self.reason) and not by_slurm and not self.reason.startswith(_REASONS)


def expand(host_list: str) -> list[str]:
    """The names that a host list stands for.

    >>> expand("nd-[0-2,7],spot-1")
    ['nd-0', 'nd-1', 'nd-2', 'nd-7', 'spot-1']
    """
    names = []
    for part in _PART.finditer(host_list):
        stem, numbers = part["stem"], part["numbers"]
        if numbers is None:
            names.append(stem)
            continue
        for piece in numbers.split(","):
            first, _, last = piece.partition("-")
            width = len(first)
            names += [f"{stem}{n:0{width}}" for n in range(int(first), int(last or first) + 1)]
    return names


def partition_of(node: str) -> str:
    """The partition of a node, whose name it starts with."""
    return node.rpartition("-")[0]


def by_partition(names: Iterable[str]) -> dict[str, list[str]]:
    """Node names by their partition."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(partition_of(name), []).append(name)
    return found


def run(settings: Settings, *command: str, timeout: float = commands.TIMEOUT) -> str:
    """What a command of Slurm's says; CommandFailed where it fails or never answers."""
    program = f"{settings.bin}/{command[0]}" if settings.bin else command[0]
    try:
        return commands.run([program, *command[1:]], timeout=timeout)
    except (commands.Refused, Fault) as error:
        raise CommandFailed(f"{' '.join(command)}: {error}") from None


def update_nodes(settings: Settings, names: Iterable[str], state: str, reason: str = "") -> None:
    """Tells slurmctld a new state of these nodes."""
    listed = ",".join(names)
    if listed:
        why = [f"reason={one_line(reason)}"] if reason else []
        run(settings, "scontrol", "update", f"nodename={listed}", f"state={state}", *why)


def update_partition(settings: Settings, name: str, state: str) -> None:
    """Tells slurmctld a new state of the partition."""
    run(settings, "scontrol", "update", f"partitionname={name}", f"state={state}")


def partition_is_up(settings: Settings, name: str) -> bool:
    """Whether the partition gives nodes to jobs."""
    return " State=UP" in run(settings, "scontrol", "-o", "show", "partition", name)


def nodes(settings: Settings) -> dict[str, Node]:
    """All nodes by name; a state is {"IDLE", "CLOUD", "POWERED_DOWN"}."""
    text = run(settings, "scontrol", "-o", "--all", "show", "node")
    found = {}
    for line in text.splitlines():
        if node := _STATE.search(line):
            why = _REASON.search(line)
            state = frozenset(node["state"].rstrip("*").split("+"))
            found[node["name"]] = Node(state, *(why.groups() if why else ()))
    return found


def states(settings: Settings) -> dict[str, frozenset[str]]:
    """Each node's state and flags."""
    return {name: node.state for name, node in nodes(settings).items()}


def one_line(text: str) -> str:
    """The text as Slurm keeps it as a reason: one line, not too long, no control characters."""
    words = " ".join(text.split())
    return "".join(each if each.isprintable() else "?" for each in words)[:200]
