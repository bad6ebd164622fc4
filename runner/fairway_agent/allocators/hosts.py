"""The nodes of a cluster that a task has, and the folder in which runs queue for them.

Where several people have accounts, their runs queue in a folder of the machines' own, in which
`clusters/<cluster>` lies instead of in each person's.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot import cluster as machines
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from fairway_agent.resources import Share

# Accounts below this number are the machines' own; see `fairway_boot.imds`, which takes long to
# import.
_PEOPLE_FROM = 2000

# As the machines call the folder, beside Fairway's own on the same file system.
_QUEUE = "fairway-queue"


@dataclass(frozen=True)
class Host(machines.Host):
    """A node, and the `share` of it that a task has, where that is not all of it."""

    share: Share | None = None


def everybodys_queue(folder: str) -> Path:
    """The folder in which the runs of several people queue; Fault where the machines have not made
    it: jobs start on the hosts that it names."""
    path = Path(folder)
    try:
        found = path.lstat()
    except FileNotFoundError:
        message = f"the nodes have no folder {folder} yet, in which people's runs queue"
        hint = (
            "they were made before `access.users` was there: reimage them, as `fairway plan` says"
        )
        raise Fault("no-queue", message, hint) from None
    if not _is_the_machines(found):
        message = f"{folder} is not the machines' own"
        raise Fault("no-queue", message, "remove it, then restart the nodes")
    return path


def queue_of(named: str, shared: Path, cluster: str) -> Path:
    """The folder in which a cluster's runs queue: the one that the target names, or that the
    machines have made since the target was read, or else that of their own files."""
    if named:
        return everybodys_queue(named)
    for directory in (*shared.parents, Path("/var/lib")):
        found = directory / _QUEUE
        if (found / "clusters" / cluster).is_dir() and _is_the_machines(found.lstat()):
            return found
    return shared


def _is_the_machines(found: os.stat_result) -> bool:
    """True if the folder does not belong to another person."""
    return stat.S_ISDIR(found.st_mode) and not os.getuid() != found.st_uid >= _PEOPLE_FROM


def known_hosts(shared: Path, cluster: str) -> list[Host]:
    """All nodes that were ever there, this one first and the others by their names."""
    return [Host(**vars(each)) for each in machines.known_hosts(shared, cluster)]
