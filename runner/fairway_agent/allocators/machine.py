"""This machine: cores that the tasks of a run share, and shares that no two runs of a user have at
once. Standard library only.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import devices
from fairway_agent.allocators import ledger
from fairway_agent.allocators.hosts import Host
from fairway_agent.allocators.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.share import Wanted

_PAUSE = 0.5  # seconds between two looks at what other runs have


def folder() -> Path:
    """Where it is noted which devices are lent; the user's own.

    OSError where somebody else has made a folder of that name.
    """
    return owned(Path(tempfile.gettempdir(), f"fairway-devices-{os.getuid()}"))


def owned(path: Path) -> Path:
    """A folder of the user's own in one that is everybody's.

    OSError where somebody else has made it.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        raise PermissionError(1, "it belongs to another user", str(path))
    return path


@dataclass
class Cores:
    """A task takes a core a rank, and one at least goes on however large it is."""

    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    tasks: int = 0
    used: int = 0

    def take(self, nodes: int, ranks: int) -> list[Host] | None:
        """Lets a task start whose ranks find cores that no other task uses."""
        if self.tasks and self.used + ranks > self.cores:
            return None
        self.tasks += 1
        self.used += min(ranks, self.cores)
        return []

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        """Its cores are free."""
        self.tasks -= 1
        self.used -= min(ranks, self.cores)


@dataclass
class Machine:
    """Tasks that want a part of the machine have it for themselves; the others share its cores."""

    lends_nodes: bool = False
    pause: float | None = None
    reason: str | None = None
    cores: Cores = field(default_factory=Cores)

    @cached_property
    def _devices(self) -> devices.Devices:
        return devices.look()

    def take(self, nodes: int, ranks: int, wanted: Wanted | None = None) -> list[Host] | None:
        """Lets a task start; None where others have what it wants."""
        self.pause = self.reason = None
        if wanted is None:
            return self.cores.take(nodes, ranks)
        share = Ledger(folder() / "machine").take(self._devices, wanted)
        if share is None:
            self.pause, self.reason = _PAUSE, f"waits for {wanted} of this machine"
            return None
        return [Host("localhost", "localhost", share=share)]

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        """What it had is free."""
        if not hosts:
            self.cores.give_back(hosts, ranks)
        for host in hosts:
            if host.share is not None:
                ledger.give_back(host.share)

    def rest(self) -> None:
        """Nothing to be done."""
