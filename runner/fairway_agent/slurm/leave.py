"""Leaves nothing of a task's attempt on a node: neither its processes nor its own folder there.

Started as `leave RUN TASK GRACE FOLDER` on each node but the main one, which looks after itself.
Slurm ends what is in its steps; a daemon that has left its session is in none where Slurm tracks
processes by their parents. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from fairway_agent.slurm.tell import processes_of, tell

_PATIENCE = 30.0  # seconds for what does not die at once, as a program in the driver of a GPU


def end_all(run: str, task: str, grace: float) -> None:
    """Ends what carries the task's names, wherever it is on this node."""
    if processes_of(run, task):
        tell(run, task, signal.SIGTERM)
    told = time.monotonic()
    while (alive := processes_of(run, task)) and time.monotonic() < told + grace + _PATIENCE:
        if time.monotonic() >= told + grace:
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    end_all(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    shutil.rmtree(sys.argv[4], ignore_errors=True)
