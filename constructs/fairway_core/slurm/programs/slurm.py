"""Slurm's own commands, and its way of writing many nodes in one word."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .settings import Settings

# Slurm's commands wait for ever where slurmctld does not answer.
_TIMEOUT = 60.0
_PART = re.compile(r"(?P<stem>[^\[,]+)(?:\[(?P<numbers>[^\]]*)\])?(?:,|$)")
# Of `scontrol -o show node`; a flag follows the state after a plus sign.
_STATE = re.compile(r"NodeName=(?P<name>\S+).*? State=(?P<state>\S+)")


class CommandFailed(Exception):
    """A command of Slurm's did not do what it was asked for; the text is its reason."""


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


def by_partition(names: Iterable[str]) -> dict[str, list[str]]:
    """Node names by their partition, whose name they start with."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition("-")[0], []).append(name)
    return found


def run(settings: Settings, *command: str, timeout: float = _TIMEOUT) -> str:
    """What a command of Slurm's says; CommandFailed where it fails or never answers."""
    program = f"{settings.bin}/{command[0]}" if settings.bin else command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandFailed(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def update_nodes(settings: Settings, names: Iterable[str], state: str, reason: str = "") -> None:
    """Tells slurmctld a new state of these nodes."""
    listed = ",".join(names)
    if listed:
        why = [f"reason={one_line(reason)}"] if reason else []
        run(settings, "scontrol", "update", f"nodename={listed}", f"state={state}", *why)


def states(settings: Settings) -> dict[str, frozenset[str]]:
    """Each node's state and flags, in capitals: {"IDLE", "CLOUD", "POWERED_DOWN"}."""
    text = run(settings, "scontrol", "-o", "--all", "show", "node")
    return {
        found["name"]: frozenset(found["state"].rstrip("*").split("+"))
        for found in map(_STATE.search, text.splitlines())
        if found
    }


def one_line(text: str) -> str:
    """The text as Slurm keeps it as a reason: one line, and not too long."""
    return " ".join(text.split())[:200]
