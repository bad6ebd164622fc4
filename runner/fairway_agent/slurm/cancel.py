"""Ends a run or one task of it early, for a person or a limit of its own: what waits at once, what
runs with its signal and grace."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fairway_agent import control, limits
from fairway_agent.records import Damaged
from fairway_agent.shared.reports import CancelRequest, Done
from fairway_agent.slurm.jobs import WAITING, jobs_named
from fairway_boot import files
from fairway_boot.files import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = CancelRequest


def answer(shared: Path, request: CancelRequest, _: object) -> Done:
    """Ends a submission, or a task of it."""
    folder = shared / "runs" / request.run
    if folder.is_dir():
        if request.task:
            _cancel_task(folder, request)
        else:
            _cancel(folder, request)
    return Done()


def _cancel(folder: Path, request: CancelRequest) -> None:
    """Cancels the run's submission, also one that another process is still making."""
    with files.alone(folder / control.SUBMIT_LOCK):
        jobs: list[str] = []
        with contextlib.suppress(Damaged):  # Slurm still names those that have not ended
            control.cancel(folder, request.submission)
            jobs = [part.job for part in control.read(folder).parts if part.job]
        mark = f"fairway {folder.name} "
        listed = jobs_named([folder.name])
        found = [each for each in listed if each.comment.startswith(mark)]
    for job in dict.fromkeys([*jobs, *(each.job for each in found)]):
        with contextlib.suppress(commands.Refused):  # it has ended
            _end(job, kill=request.kill)
    # Nothing of these runs yet that could be told.
    starting = [each.id for each in found if each.state == "CONFIGURING"]
    if starting:
        with contextlib.suppress(commands.Refused):
            commands.run(["scancel", *starting])


def _end(job: str, *, kill: bool) -> None:
    if kill:
        commands.run(["scancel", job])
        return
    commands.run(["scancel", "--state=PENDING", job])
    _ask(job)


def _ask(job: str) -> None:
    """Tells the batch script alone: that tells the program, and waits for as long as its grace."""
    commands.run(["scancel", "--batch", "--signal=TERM", job])


def _cancel_task(folder: Path, request: CancelRequest) -> None:
    """Notes it, by which the task ends where it begins only now, and tells Slurm of its job."""
    with files.alone(folder / control.SUBMIT_LOCK):
        control.cancel(folder, request.submission, request.task)
        parts = control.read(folder).parts
    mine = [
        part.element(index)
        for part in parts
        for index in (part.indices if part.job else ())
        if part.task_folder(folder, index).name == request.task
    ]
    for job in jobs_named([folder.name]) if mine else ():
        if (job.job, job.index) in mine:
            with contextlib.suppress(commands.Refused):  # it has ended
                # Not by `--state=PENDING`: that takes all elements of an array which wait (22.05).
                if job.state in WAITING:
                    commands.run(["scancel", job.id])
                else:
                    _ask(job.id)


class Watch(limits.Watch):
    """See `limits`: the first task that sees it takes the run's other jobs back."""

    def take_back(self) -> None:
        """Where Slurm does not answer, what is about to begin sees by itself that it must not."""
        for job in [part.job for part in control.read(self.folder).parts if part.job]:
            with contextlib.suppress(commands.Refused, Fault):
                commands.run(["scancel", "--state=PENDING", job])
