"""Nodes of a cluster without a scheduler, and the runs that use them or wait for them.

Each node's timer writes `<shared>/clusters/<cluster>/hosts/<host name>`. Its first word is the
node's address; the text after its third is what the node lacks. A node that lacks something, or has
been silent for longer than FRESH, gets no tasks. Without such a folder, the main host is alone.

Next to it lie `nodes/<name>`, a lock that the run using the node holds, and `queue/<time>-<run>`, a
ticket that a run holds locked while it waits; see `fairway_agent.ssh.cluster_nodes`. Files that
other people have written are read with care.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_boot.files import is_world_writable, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FRESH = 180.0  # seconds; the timer writes every minute

_PATIENCE, _PAUSE = 5.0, 0.2  # seconds for the queue's lock, and between two tries

_LONGEST = 128  # characters of a run's name
_TICKET = re.compile(rf"[0-9]{{20}}-([A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST - 1}}})")
_SOMEBODY = "another run"


@dataclass(frozen=True)
class Host:
    """A node: its name, its address, for how many seconds it has been silent, and the GPUs or
    adapters that it reports missing."""

    name: str
    address: str
    age: float = 0.0
    trouble: str = ""

    @property
    def is_fresh(self) -> bool:
        """True if it has reported recently."""
        return self.age < FRESH

    @property
    def is_well(self) -> bool:
        """True if tasks may use it."""
        return self.is_fresh and not self.trouble

    @property
    def is_own(self) -> bool:
        """True if it is this host."""
        return self.name == own_name()

    @property
    def is_near(self) -> bool:
        """True if programs start on it without a connection."""
        return self.is_own or self.address == "localhost"


def own_name() -> str:
    """Returns this host's name."""
    return os.uname().nodename


def known_hosts(shared: Path, cluster: str) -> list[Host]:
    """Returns all nodes that ever reported, this one first and the others by their names."""
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
        # Checked before opening: reading a pipe would block.
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            return None  # not written by a node
        words = path.read_text(encoding="utf-8").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return None  # removed meanwhile, or not written by a node
    age = max(0.0, now - status.st_mtime)
    # A file is empty for a moment while it is rewritten.
    return Host(path.name, words[0], age, " ".join(words[3:])) if words else None


def server_time(folder: Path) -> float:
    """Returns the time by the file system's clock, which dates the announcements."""
    # In a shared cluster users cannot write to the folder itself, but to its queue.
    for directory in (folder, folder / "queue"):
        probe = directory / f".now.{own_name()}.{os.getuid()}"
        try:
            probe.touch()
            os.utime(probe)
            return probe.stat().st_mtime
        except OSError:
            continue
    return time.time()


def by_name(host: Host) -> tuple[str, int, str]:
    """Returns a sort key that puts node-10 after node-9."""
    name = host.name
    stem = name.rstrip("0123456789")
    return (stem, int(name[len(stem) :] or 0), name)


def users(shared: Path, cluster: str) -> dict[str, str]:
    """Returns the run that uses each node, by the node's name; free nodes are left out."""
    folder = shared / "clusters" / cluster / "nodes"
    paths = folder.glob("[!.]*") if folder.is_dir() else ()
    return {path.name: run for path in paths if (run := user_of(path)) is not None}


def runs(shared: Path, cluster: str) -> list[str]:
    """Returns the runs that use nodes or wait for them. One caller at a time: a look takes locks
    for a moment, which another would take for a run's. Raises OSError if it is another's turn for
    longer than any look takes."""
    folder = shared / "clusters" / cluster
    if not (folder / "queue").is_dir():
        return []
    with hold_queue(folder) as held:
        if held:
            raise TimeoutError(held)
        return [*users(shared, cluster).values(), *waiting_runs(folder / "queue")]


@contextmanager
def hold_queue(folder: Path) -> Iterator[str]:
    """Holds the lock of a cluster's queue, which everybody may take; yields why not, or "" if it
    does: another has held it for longer than any look at the queue takes."""
    lock, last = folder / "queue.lock", time.monotonic() + _PATIENCE
    while (descriptor := try_lock(lock)) is None and time.monotonic() < last:
        time.sleep(_PAUSE)
    held = f"a process holds {lock} (on each node: fuser -v {lock})"
    try:
        yield held if descriptor is None else ""
    finally:
        if descriptor is not None:
            os.close(descriptor)


def waiting_runs(folder: Path, until: str = "~") -> list[str]:
    """Returns the runs whose tickets come before that name, and removes the tickets of runs that
    are gone; the caller holds the queue's lock."""
    found = []
    for ticket in sorted(folder.iterdir()):
        match = _TICKET.fullmatch(ticket.name)
        if match is None or ticket.name >= until:
            continue
        try:
            lock = try_lock(ticket)
        except OSError:
            continue  # not lockable: somebody created it by hand
        if lock is None:
            found.append(match[1])
            continue
        # Its run is gone. Another user's ticket stays until they list the queue themselves.
        with suppress(FileNotFoundError, PermissionError):
            ticket.unlink()
        os.close(lock)
    return found


def user_of(node: Path) -> str | None:
    """Returns the run that has recorded itself as the holder of a node's lock; None if the node is
    free."""
    lock = try_node(node)
    if lock is not None:
        os.close(lock)
        return None
    if not node.is_file():
        return _SOMEBODY  # reading a pipe would block
    try:
        with node.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST + 1).strip()
    except PermissionError:
        return _SOMEBODY
    is_plain = len(text) <= _LONGEST and re.fullmatch(r"[A-Za-z0-9._-]*", text)
    return text if is_plain else _SOMEBODY


def try_node(node: Path) -> int | None:
    """Returns the descriptor that holds a node's lock; None if it is held, or unreadable."""
    try:
        return try_lock(node)
    except OSError:
        if not is_world_writable(node.parent):
            raise
        return None
