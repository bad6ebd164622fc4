"""How a supervisor writes what it knows: each file replaced as a whole. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_PAUSE = 1.0  # seconds between two attempts to write to a disk that is full
WAS_FULL = "the disk was full for a while, and states were written late"


def write_json(path: Path, value: object) -> None:
    """Replaces a file as a whole: a reader sees the old text or the new, never a part."""
    # Other hosts that share the folder have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.uname().nodename}")
    try:
        temporary.write_text(json.dumps(value), encoding="utf-8")
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
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
