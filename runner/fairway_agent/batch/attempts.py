"""Which attempt of its task this is, counted in a file that the next attempt finds, and why the one
before ended, in another."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from fairway_agent.attempt_line import RETRIED


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


def keep_ending(folder: Path, task: str, attempt: int, why: str) -> None:
    """Says why an attempt ended."""
    with suppress(OSError):
        _ending(folder, task).write_text(f"{attempt} {why}", encoding="utf-8")


def ending_before(folder: Path, task: str, attempt: int, first: int) -> str:
    """Why the attempt before this one ended; one that could not say so has lost its node."""
    if attempt == first:
        return RETRIED
    with suppress(OSError, ValueError):
        number, _, why = _ending(folder, task).read_text(encoding="utf-8").partition(" ")
        if int(number) == attempt - 1:
            return why
    return "its node was lost, or taken away without notice"


def _ending(folder: Path, task: str) -> Path:
    return folder / f"{task}.ending"
