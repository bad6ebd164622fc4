"""Takes a sample of this node every few seconds, for as long as what started it lives.

Started as `sampler RUN_FOLDER SECONDS [PARENT]`; appends lines of JSON to `figures/NODE.jsonl` in
the run's folder. Where nodes share no folder RUN_FOLDER is `-`: lines go to standard output, and
each names its node. It ends by SIGTERM, and by itself when the process PARENT has ended, which is
the one that started it unless another is named. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import wakeups
from fairway_agent.figures import FOLDER
from fairway_agent.figures.machine import Machine
from fairway_boot.files import try_lock
from fairway_boot.gpus import Gpus

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_MANY = 8640  # samples, a day of them: from then on they are further apart
SLOWER = 6
"""As many times."""


def sample_until_told(
    add: Callable[[dict[str, Any]], None], seconds: float, told: socket.socket, parent: int
) -> None:
    """Takes a sample every `seconds`, until `told` has something to read or the parent ends."""
    machine, gpus = Machine(), Gpus(seconds)
    count = 0
    gpus.start()
    try:
        machine.sample(time.monotonic())
        while True:
            pause = seconds if count < _MANY else seconds * SLOWER
            if select.select([told], [], [], pause)[0] or os.getppid() != parent:
                return
            count += 1
            found = machine.sample(time.monotonic())
            figures = {name: round(value, 4) for name, value in found.items()}
            # A disk that is full costs samples, and nothing else.
            with suppress(OSError):
                add({"time": round(time.time(), 3), **figures, "gpus": gpus.sample()})
    finally:
        gpus.stop()


@dataclass
class _File:
    """The samples of a node. Of several tasks of the run on it one writes them: the first, and when
    that has ended another."""

    path: Path
    lock: int | None = None

    def add(self, sample: dict[str, Any]) -> None:
        """Adds a line, unless it is another's turn."""
        self.lock = self.lock or try_lock(self.path)
        if self.lock is not None:
            with self.path.open("a", encoding="ascii") as lines:
                lines.write(_line(sample))


def _to_output(node: str, sample: dict[str, Any]) -> None:
    # At once: several nodes' samples share what this goes to.
    os.write(1, _line({"node": node, **sample}).encode("ascii"))


def _line(sample: dict[str, Any]) -> str:
    return json.dumps(sample, separators=(",", ":")) + "\n"


def node_name() -> str:
    """What this node is called, as its engine or its kernel names it."""
    told = ("_FAIRWAY_NODE", "SLURMD_NODENAME", "AZ_BATCH_NODE_ID")
    names = (os.environ.get(name) for name in told)
    return next(filter(None, names), os.uname().nodename)


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, seconds = sys.argv[1], float(sys.argv[2])
    parent = int(sys.argv[3]) if len(sys.argv) > 3 else os.getppid()
    # Wherever the signal comes, the programs that watch the GPUs are ended too.
    told, _ = wakeups.signal_wakeups(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    node = node_name()
    add: Callable[[dict[str, Any]], None] = partial(_to_output, node)
    with suppress(OSError):
        if run != "-":
            folder = Path(run, FOLDER)
            folder.mkdir(exist_ok=True)
            add = _File(folder / f"{node}.jsonl").add
        sample_until_told(add, seconds, told, parent)


if __name__ == "__main__":
    main()
