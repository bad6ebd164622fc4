"""Signals and cleans up a task's processes on its other nodes, for its main node.

Started as `others signal RUN TASK SIGNAL` or `others leave RUN TASK GRACE FOLDER` on each of them;
FOLDER is the task's own on the local disk. Slurm ends the processes in its steps; a daemon that has
left its session is in no step where Slurm tracks processes by their parents.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from fairway_agent import processes

_PATIENCE = 30.0  # seconds for what does not die at once, as a program in the driver of a GPU


def signal_task(run: str, task: str, number: signal.Signals) -> None:
    """Tells those that do the job's work; launchers end by themselves when these have."""
    processes.signal_processes(processes_of(run, task), number)


def processes_of(run: str, task: str) -> set[int]:
    """Finds the processes with the task's names in their environment: on other nodes too, whichever
    launcher started them, and in whichever session."""
    wanted = {f"FAIRWAY_RUN={run}", f"FAIRWAY_TASK={task}"}
    return {pid for pid, variables in processes.environments() if wanted <= set(variables)}


def end_all(run: str, task: str, grace: float) -> None:
    """Ends what carries the task's names, wherever it is on this node."""
    if processes_of(run, task):
        signal_task(run, task, signal.SIGTERM)
    told = time.monotonic()
    while (alive := processes_of(run, task)) and time.monotonic() < told + grace + _PATIENCE:
        if time.monotonic() >= told + grace:
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    what, run, task, *words = sys.argv[1:]
    if what == "signal":
        signal_task(run, task, signal.Signals[f"SIG{words[0]}"])
        return
    end_all(run, task, float(words[0]))
    shutil.rmtree(words[1], ignore_errors=True)


if __name__ == "__main__":
    main()
