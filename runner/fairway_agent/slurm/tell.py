"""Sends a signal to the processes of a task that are on this node. Standard library only.

As a program, `tell RUN TASK SIGNAL`, it runs on the task's other nodes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from fairway_agent import processes


def tell(run: str, task: str, number: signal.Signals) -> None:
    """Tells those that do the job's work; launchers end by themselves when these have."""
    processes.tell_each(processes_of(run, task), number)


def processes_of(run: str, task: str) -> set[int]:
    """What carries the task's names in its environment: on other nodes too, whatever launcher
    has started it, and in whichever session."""
    wanted = {f"FAIRWAY_RUN={run}".encode(), f"FAIRWAY_TASK={task}".encode()}
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                environment = Path(entry.path, "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended meanwhile, or is another user's
            if wanted <= set(environment):
                found.add(int(entry.name))
    return found


if __name__ == "__main__":
    tell(sys.argv[1], sys.argv[2], signal.Signals[f"SIG{sys.argv[3]}"])
