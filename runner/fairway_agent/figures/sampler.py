"""Takes a sample of this node every few seconds, for as long as what started it lives.

Started as `sampler RUN_FOLDER SECONDS`; appends lines of JSON to `figures/NODE.jsonl` in the run's
folder. It ends by SIGTERM, and by itself when its parent has ended. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.figures.gpus import Gpus
from fairway_agent.figures.machine import Machine

if TYPE_CHECKING:
    from types import FrameType

FOLDER = "figures"
_MANY = 8640  # samples, a day of them: from then on they are further apart
_SLOWER = 6


class _Told(Exception):
    """It is to end."""


def sample_until_told(file: Path, seconds: float) -> None:
    """Adds a sample to the file every so many seconds, until SIGTERM or the parent's end."""
    machine, gpus = Machine(), Gpus(seconds)
    parent, count = os.getppid(), 0
    gpus.start()
    try:
        machine.sample(time.monotonic())
        while True:
            time.sleep(seconds if count < _MANY else seconds * _SLOWER)
            if os.getppid() != parent:
                return
            count += 1
            found = machine.sample(time.monotonic())
            figures = {name: round(value, 4) for name, value in found.items()}
            record = {"time": round(time.time(), 3), **figures, "gpus": gpus.sample()}
            # A disk that is full costs samples, and nothing else.
            with suppress(OSError), file.open("a", encoding="ascii") as lines:
                lines.write(json.dumps(record, separators=(",", ":")) + "\n")
    finally:
        gpus.stop()


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Told


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, seconds = Path(sys.argv[1]), float(sys.argv[2])
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    folder = run / FOLDER
    with suppress(_Told, OSError):
        folder.mkdir(exist_ok=True)
        sample_until_told(folder / f"{node}.jsonl", seconds)


if __name__ == "__main__":
    main()
