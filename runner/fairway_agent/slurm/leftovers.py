"""Signals and ends processes on a node where Slurm tracks these by their parents: a daemon that has
left its session is in no step, outlives its job, and keeps using the GPUs.

    leftovers before SHARED                ends what killed jobs have left, before a task's script
    leftovers signal RUN TASK SIGNAL       signals a task's processes on one of its other nodes
    leftovers leave RUN TASK GRACE FOLDER  ends these, and removes the task's FOLDER on that node

SHARED is the folder of all runs. If a job has a cgroup, Slurm itself ends all of its processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import processes
from fairway_agent.slurm.jobs import ENDED
from fairway_boot.files import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Mapping

_GRACE = 5.0  # seconds for what is left to save what it has
_PATIENCE = 30.0  # seconds for what does not die at once, as a program in the driver of a GPU
_RUN, _JOB, _TIMES = "FAIRWAY_SHARED_DIR", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"


def are_contained(environment: Mapping[str, str], root: Path = Path("/")) -> bool:
    """True if Slurm has a cgroup for the job, in which it ends every process."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(f"job_{environment.get(_JOB)}" in line.split("/") for line in lines)


def end_leftovers(shared: Path, environment: Mapping[str, str]) -> None:
    """Ends what this user's tasks left here whose job Slurm has no more, or has begun anew."""
    found = _others(shared, environment)
    if not found:
        return
    going: set[str] = set()
    own = (environment.get(_JOB, ""), environment.get(_TIMES, "0"))
    if any(job != own[0] for job, _ in found.values()):
        # By itself squeue leaves out jobs that are suspended, and those of hidden partitions.
        every = ["squeue", "-h", "-a", "-t", "all", "-u", str(os.getuid()), "-o", "%A|%T"]
        try:
            listed = (line.partition("|") for line in commands.run(every).splitlines())
            going = {job for job, _, state in listed if state not in ENDED}
        except (commands.Refused, Fault):
            going = {job for job, _ in found.values()} - {own[0]}
    left = {pid for pid, key in found.items() if key[0] == own[0] or key[0] not in going}
    processes.end(processes.sessions_of_all(left) - {os.getsid(0)}, _GRACE)


def _others(shared: Path, environment: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """The processes here that tasks of other jobs have started, or of this one before it began
    anew: each with the job, and how often that had begun anew."""
    own = (environment.get(_JOB, ""), environment.get(_TIMES, "0"))
    found = {}
    for pid, variables in processes.environments():
        known = dict(each.partition("=")[::2] for each in variables)
        # A launcher passes this one on to other nodes too.
        folder, job = known.get(_RUN, ""), known.get(_JOB, "")
        key = (job, known.get(_TIMES, "0"))
        if job and key != own and Path(folder).is_relative_to(shared / "runs"):
            found[pid] = key
    return found


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
    began = time.monotonic()
    while (alive := processes_of(run, task)) and time.monotonic() < began + grace + _PATIENCE:
        if time.monotonic() >= began + grace:
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    what, *words = sys.argv[1:]
    if what == "before":
        end_leftovers(Path(words[0]), os.environ)
    elif what == "signal":
        signal_task(words[0], words[1], signal.Signals[f"SIG{words[2]}"])
    else:
        end_all(words[0], words[1], float(words[2]))
        shutil.rmtree(words[3], ignore_errors=True)


if __name__ == "__main__":
    main()
