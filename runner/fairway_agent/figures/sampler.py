"""Takes a sample of this node every few seconds, for as long as what started it lives.

Started as `sampler RUN_FOLDER SECONDS`; appends lines of JSON to `figures/NODE.jsonl` in the run's
folder. Where nodes share no folder RUN_FOLDER is `-`: lines go to standard output, and each names
its node. It ends by SIGTERM, and by itself when its parent has ended. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.figures.gpus import Gpus
from fairway_agent.figures.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FOLDER = "figures"
_MANY = 8640  # samples, a day of them: from then on they are further apart
_SLOWER = 6


class _Told(Exception):
    """It is to end."""


def sample_until_told(add: Callable[[dict[str, Any]], None], seconds: float) -> None:
    """Takes a sample every so many seconds, until SIGTERM or the parent's end."""
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
            # A disk that is full costs samples, and nothing else.
            with suppress(OSError):
                add({"time": round(time.time(), 3), **figures, "gpus": gpus.sample()})
    finally:
        gpus.stop()


def _to_file(file: Path, sample: dict[str, Any]) -> None:
    with file.open("a", encoding="ascii") as lines:
        lines.write(_line(sample))


def _to_output(node: str, sample: dict[str, Any]) -> None:
    # At once: several nodes' samples share what this goes to.
    os.write(1, _line({"node": node, **sample}).encode("ascii"))


def _line(sample: dict[str, Any]) -> str:
    return json.dumps(sample, separators=(",", ":")) + "\n"


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Told


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, seconds = sys.argv[1], float(sys.argv[2])
    names = (os.environ.get(name) for name in ("SLURMD_NODENAME", "AZ_BATCH_NODE_ID"))
    node = next(filter(None, names), os.uname().nodename)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    add = partial(_to_output, node)
    with suppress(_Told, OSError):
        if run != "-":
            folder = Path(run, FOLDER)
            folder.mkdir(exist_ok=True)
            add = partial(_to_file, folder / f"{node}.jsonl")
        sample_until_told(add, seconds)


if __name__ == "__main__":
    main()
