"""The time that tests wait for events: only a hang takes that long.

`FAIRWAY_TEST_PATIENCE=3` waits three times as long, on a machine that is very busy.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0 * float(os.environ.get("FAIRWAY_TEST_PATIENCE", "1"))

Found = TypeVar("Found")


def until(condition: Callable[[], Found], why: Callable[[], object] = lambda: None) -> Found:
    """Waits for a condition, and returns its first true value; `why` describes a timeout."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)
    return found


def lines_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """Returns the lines that a process prints, up to the first one with that word."""
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if word in line:
            return lines
    raise AssertionError(f"it ended after {lines}: {process.stderr and process.stderr.read()}")


def without_delays(printed: str) -> str:
    """Removes warnings that a target is slow to respond, which depend on how busy the machine
    is."""
    return re.sub(r"^\S+ does not answer.*; trying until .*\n", "", printed, flags=re.MULTILINE)
