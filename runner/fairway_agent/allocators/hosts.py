"""The nodes of a cluster, as they announce themselves in a folder that all of them see.

Each node's timer writes `<shared>/clusters/<cluster>/hosts/<host name>`, whose first word is
the node's address; what follows its third is what the node lacks. One that lacks something, or has
been silent for longer than FRESH, is not counted on.
Where there is no such folder the main host is alone.

Where several people have accounts, their runs queue in a folder of the machines' own, in which
`clusters/<cluster>` lies instead of in each person's. Standard library only.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.faults import Fault

if TYPE_CHECKING:
    from fairway_agent.share import Share

FRESH = 180.0  # seconds; the timer writes each minute

# Accounts below this number are the machines' own; see azure/imds.py, which takes long to import.
_PEOPLE_FROM = 2000

# As the machines call the folder, beside Fairway's own on the same file system.
_QUEUE = "fairway-queue"


@dataclass(frozen=True)
class Host:
    """A node: its name, where it is reached, for how many seconds it has been silent, and what it
    says that it lacks: GPUs, or adapters; `share` is what of it a task has, where that is not the
    whole."""

    name: str
    address: str
    age: float = 0.0
    trouble: str = ""
    share: Share | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether it is there, as far as one knows."""
        return self.age < FRESH

    @property
    def is_well(self) -> bool:
        """Whether tasks may have it."""
        return self.is_fresh and not self.trouble

    @property
    def is_own(self) -> bool:
        """Whether it is this host."""
        return self.name == own_name()

    @property
    def is_near(self) -> bool:
        """Whether programs start on it without a connection."""
        return self.is_own or self.address == "localhost"


def own_name() -> str:
    """This host's name."""
    return os.uname().nodename


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
    """Whether a folder is no other person's."""
    return stat.S_ISDIR(found.st_mode) and not os.getuid() != found.st_uid >= _PEOPLE_FROM


def known_hosts(shared: Path, cluster: str) -> list[Host]:
    """All nodes that were ever there, this one first and the others by their names."""
    folder = shared / "clusters" / cluster / "hosts"
    if not folder.is_dir():
        return [Host(own_name(), "localhost")]
    now, owner = server_time(folder.parent), folder.stat().st_uid
    found = [host for path in folder.iterdir() if (host := _read(path, now, owner)) is not None]
    return sorted(found, key=lambda host: (not host.is_own, by_name(host)))


def _read(path: Path, now: float, owner: int) -> Host | None:
    if path.name.startswith("."):
        return None
    try:
        status = path.lstat()
        # Before it is opened: a pipe would never be read to its end.
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            return None  # no node has written it
        words = path.read_text(encoding="utf-8").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return None  # it was removed meanwhile, or no node has written it
    age = max(0.0, now - status.st_mtime)
    # A file that is being written is empty for a moment.
    return Host(path.name, words[0], age, " ".join(words[3:])) if words else None


def server_time(folder: Path) -> float:
    """The time by the clock of the file system, with which the announcements are dated."""
    # Where people's runs queue, the folder itself is not theirs.
    for directory in (folder, folder / "queue"):
        probe = directory / f".now.{own_name()}.{os.getuid()}"
        try:
            probe.touch()
            os.utime(probe)
            return probe.stat().st_mtime
        except OSError:
            continue
    import time

    return time.time()


def by_name(host: Host) -> tuple[str, int, str]:
    """An order in which node-10 comes after node-9."""
    name = host.name
    stem = name.rstrip("0123456789")
    return (stem, int(name[len(stem) :] or 0), name)
