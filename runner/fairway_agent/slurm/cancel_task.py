"""Ends one task of a run early: at once where it waits, with its signal and grace where it runs.

Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
from typing import IO, TYPE_CHECKING

from fairway_agent import cancelled_tasks, record
from fairway_agent.shared import submissions
from fairway_agent.shared.reports import Done, TaskCancelRequest
from fairway_agent.slurm import commands
from fairway_agent.slurm.jobs import WAITING, jobs_named

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.slurm.jobs import Element

REQUEST = TaskCancelRequest


def answer(
    shared: Path,
    request: TaskCancelRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Notes it, by which the task ends where it begins only now, and tells Slurm of its job."""
    folder = shared / "runs" / request.run
    if not folder.is_dir():
        return Done()
    with record.alone(folder / "submit.lock"):
        cancelled_tasks.cancel(folder, request.task, request.submission)
        mine = _element_of(folder, request.task)
    for job in jobs_named([folder.name]) if mine else ():
        if (job.job, job.index) == mine:
            with suppress(commands.Refused):  # it has ended
                _end(job)
    return Done()


def _end(job: Element) -> None:
    """Not by `--state=PENDING`: that takes all elements of an array which wait (Slurm 22.05)."""
    if job.state in WAITING:
        commands.run(["scancel", job.id])
    else:
        # To the batch script alone: it tells the program, and waits for as long as its grace.
        commands.run(["scancel", "--batch", "--signal=TERM", job.id])


def _element_of(folder: Path, task: str) -> tuple[str, int] | None:
    """The job that has the task, and the element of an array that it is; None before there is
    one."""
    known = submissions.read(folder)
    for part in known.parts if known is not None else ():
        for index in part.indices if part.job else ():
            if part.task_folder(folder, index).name == task:
                return part.element(index)
    return None
