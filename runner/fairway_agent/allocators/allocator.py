"""Who may start next, and on which nodes: one interface for all that allots tasks.

`Machine` is this one, `Nodes` the share that a run has of a cluster's hosts. Slurm and Batch keep
the queue of a run's tasks themselves, and start each on its nodes. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.share import Wanted


class Allocator(Protocol):
    """What the tasks of one run are allotted."""

    lends_nodes: bool
    """Whether tasks get nodes of their own, for which the run may have to wait, and on which the
    job's setup is each task's own business."""
    pause: float | None
    """Seconds until it is worth asking again; None where only the end of another task helps."""
    reason: str | None
    """What the last task that got nothing waits for."""

    def take(self, nodes: int, ranks: int, wanted: Wanted | None = None) -> list[Host] | None:
        """Lets a task start, on these nodes if it has any of its own; None where it is to wait.

        `wanted` is what it takes of its node, where that is not the whole: NeverFits where no
        node has so much.
        """

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        """The task has ended; `lost` are the addresses of its nodes that could not be reached."""

    def rest(self) -> None:
        """No task wants to start."""
