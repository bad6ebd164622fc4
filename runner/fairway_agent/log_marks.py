"""Lines of a task's log that are not the job's own, and the labels before those that are.

A launcher labels the lines of its ranks. Fairway begins an attempt that is not the first with a
line that says which one it is, and why there is another. Standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

RETRIED = "the run was retried"

# `[1,0]<stdout>: text` with --tag-output, which Open MPI 4 and 5 have (4 leaves out the
# space), and `[0]<stdout>: text` with --output rank, which 5 has, and by the templates' own.
_LABEL = re.compile(rb"\[(?:\d+,)?(\d{1,9})\]<std(?:out|err|diag)>: ?")
# The others are what a reader of a Batch pool's logs writes where an attempt has left no more.
_LINE = re.compile(rb"fairway: attempt (\d{1,9})(: | lost its node| left no more lines)")


def split_label(line: bytes) -> tuple[int | None, bytes]:
    """The rank that a line of a log is labelled with, and the line without the label.

    >>> split_label(b"[1,3]<stdout>: loss 0.5"), split_label(b"loss 0.5")
    ((3, b'loss 0.5'), (None, b'loss 0.5'))
    """
    match = _LABEL.match(line) if line.startswith(b"[") else None
    return (int(match[1]), line[match.end() :]) if match else (None, line)


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
    >>> begun(b"fairway: attempt 2 lost its node, and the last lines that it printed")
    3
    >>> begun(b"fairway: attempt 1 left no more lines")
    2
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


def say(text: str) -> None:
    """A line of Fairway's own in the task's log."""
    print_line(f"fairway: {text}")


def print_line(line: str) -> None:
    """A line of this program's output; none where its disk is full."""
    try:
        print(line, flush=True)  # noqa: T201
    except OSError:
        # What it still holds would be tried again as the program ends, and be its exit code.
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)


def _has_files(folder: str) -> bool:
    with suppress(OSError):
        return any(Path(folder).iterdir())
    return False
