"""What is written of runs and tasks: their states, and files that are replaced as a whole.

Standard library only; the runner reads and writes by it too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

GOING_STATES = frozenset({"queued", "running"})
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})
STATES = GOING_STATES | FINAL_STATES

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_PAUSE = 1.0  # seconds between two attempts to write to a disk that is full
WAS_FULL = "the disk was full for a while, and states were written late"


def goes_on(status: Mapping[str, Any]) -> bool:
    """Whether something of it is still to come; not so where nothing was written yet."""
    return status.get("state") in GOING_STATES


def end_state(counts: Mapping[str, int], *, setup_failed: bool = False) -> str:
    """The state of a run that has ended, from how many of its tasks are in which."""
    if counts.get("failed") or setup_failed:
        return "failed"
    return next((state for state in ("lost", "cancelled") if counts.get(state)), "succeeded")


def write_json(path: Path, value: object) -> None:
    """Replaces a file as a whole: a reader sees the old text or the new, never a part."""
    write_bytes(path, json.dumps(value).encode())


def write_bytes(path: Path, data: bytes) -> None:
    """The same, of what is no JSON."""
    # Other hosts that share the folder have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.uname().nodename}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # half a file
        raise


@dataclass
class States:
    """The states that a supervisor writes; those for which the disk has no room are kept in
    `late`, the newest of each file, and written, with that reason, when there is some."""

    late: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def write(self, path: Path, value: dict[str, Any]) -> None:
        """Writes it now, or keeps it."""
        self.late[path] = value
        self.write_late()

    def write_late(self) -> None:
        """Writes what was kept, as far as there is room."""
        for path in list(self.late):
            try:
                write_json(path, self.late[path])
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                for value in self.late.values():
                    value["reason"] = value.get("reason") or WAS_FULL
                return
            del self.late[path]


def read_json(path: Path) -> dict[str, Any]:
    """What was written there; nothing where there is no such file."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Holds a lock file, which is made where there is none: one holder at a time, whether thread
    or process; the kernel drops it with the process."""
    descriptor = _open_lock(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(lock: Path) -> int | None:
    """The descriptor that holds a lock file, until it is closed; None where somebody has it."""
    descriptor = _open_lock(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(path: Path) -> int:
    # For writing too: NFS refuses an exclusive lock on a file that is only read.
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
