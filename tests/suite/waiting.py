"""Time that tests wait for what comes by itself: only a hang takes so long.

`FAIRWAY_TEST_PATIENCE=3` waits three times as long, on a machine that is very busy.
"""

import os
import re
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0 * float(os.environ.get("FAIRWAY_TEST_PATIENCE", "1"))

Found = TypeVar("Found")


def until(condition: Callable[[], Found], why: Callable[[], object] = lambda: None) -> Found:
    """Returns the first true value of a condition; `why` describes one that never comes."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)
    return found


def without_delays(printed: str) -> str:
    """Leaves out that a target takes its time: on a busy machine one may take longer than a person
    is left without a word."""
    return re.sub(r"^\S+ does not answer.*; trying until .*\n", "", printed, flags=re.MULTILINE)
