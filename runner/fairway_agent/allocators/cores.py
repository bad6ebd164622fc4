"""This machine's cores, which the tasks of a run share. Standard library only."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.allocators.hosts import Host


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
