"""Copies a log to a stream as it grows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, BinaryIO

from fairway_runner.runs import FINAL_STATES

if TYPE_CHECKING:
    from fairway_runner.runs import Run

_CHUNK = 1 << 20
_PAUSE = 0.05  # seconds between two looks at a file that has not grown


def copy_log(run: Run, index: int, out: BinaryIO, *, follow: bool) -> None:
    """Writes what the task has printed, and with `follow` what it prints until the run ends."""
    path = run.log(index)
    while follow and not path.exists() and run.state not in FINAL_STATES:
        time.sleep(_PAUSE)
    if not path.exists():
        return
    with path.open("rb") as log:
        while True:
            # Asked before reading: what was printed by then is read below.
            ended = not follow or run.state in FINAL_STATES
            while chunk := log.read(_CHUNK):
                out.write(chunk)
            out.flush()
            if ended:
                return
            time.sleep(_PAUSE)
