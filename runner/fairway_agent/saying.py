"""What Fairway itself says in a task's log. Standard library only."""

from __future__ import annotations

import os
import sys


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
