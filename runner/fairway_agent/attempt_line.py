"""The line with which an attempt that is not a task's first begins in the log: which one it is, and
why there is another. Standard library only."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

RETRIED = "the run was retried"

# The second is what a reader of a Batch pool's logs writes where a node took its words with it.
_LINE = re.compile(rb"fairway: attempt (\d{1,9})(: | lost its node)")


def attempt_line(attempt: int, why: str, checkpoint: str) -> str:
    """The line of an attempt, which counts from 0; people count from 1. `checkpoint` is the folder
    of what attempts save, which is named where there is something in it.

    >>> attempt_line(1, "exit code 3", "/nowhere")
    'fairway: attempt 2: exit code 3'
    """
    saved = f"; the checkpoint is in {checkpoint}" if _has_files(checkpoint) else ""
    return f"fairway: attempt {attempt + 1}: {' '.join(why.split())}{saved}"


def begun(line: bytes) -> int | None:
    """Which attempt, from 1, begins with a line of a log.

    >>> begun(b"fairway: attempt 2: exit code 3"), begun(b"attempt 2")
    (2, None)
    >>> begun(b"fairway: attempt 2 lost its node, and with it what it printed last")
    3
    """
    found = _LINE.match(line)
    return int(found[1]) + (found[2] != b": ") if found else None


def append(log: Path, line: str) -> None:
    """Adds the line to a log, whose last one may lack its end; where the disk has no room it is
    left out."""
    with suppress(OSError), log.open("a+b") as file:
        if file.tell():
            file.seek(-1, 2)
        cut = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * cut + line.encode("utf-8", "surrogateescape") + b"\n")


def _has_files(folder: str) -> bool:
    with suppress(OSError):
        return any(Path(folder).iterdir())
    return False
