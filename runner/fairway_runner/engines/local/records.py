"""How a supervisor writes what it knows: each file replaced as a whole. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Replaces a file as a whole: a reader sees the old text or the new, never a part."""
    # Other hosts that share the folder have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.uname().nodename}")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)


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
