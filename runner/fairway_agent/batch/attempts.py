"""Which attempt of its task this is, counted in a file that the next attempt finds."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def count(folder: Path, task: str, first: int) -> int:
    """The number of the attempt that begins now, from 0; `first` is what it is at least.

    The file lies on what all nodes mount, so that a task that goes on elsewhere counts on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(Path(folder, task), os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "r+", encoding="ascii") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        text = file.read().strip()
        attempt = max(int(text) if text.isdecimal() else 0, first)
        file.seek(0)
        file.write(f"{attempt + 1}\n")
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return attempt
