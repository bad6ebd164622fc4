"""Ends a run early, for a person or a limit of its own: what waits at once, what runs with its
signal and grace. Standard library only.
"""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING

from fairway_agent import record
from fairway_agent.faults import Fault
from fairway_agent.fields import Damaged
from fairway_agent.shared import submissions, watch
from fairway_agent.shared.reports import CancelRequest, Done
from fairway_agent.slurm import commands
from fairway_agent.slurm.jobs import jobs_named

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = CancelRequest


def answer(
    shared: Path,
    request: CancelRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Ends a submission. What was being submitted by somebody else is taken back too."""
    folder = shared / "runs" / request.run
    if not folder.is_dir():
        return Done()
    with record.alone(folder / "submit.lock"):
        submissions.cancel(folder, request.submission)
        jobs: list[str] = []
        with contextlib.suppress(Damaged):  # Slurm still names those that have not ended
            known = submissions.read(folder)
            jobs = [part.job for part in known.parts if part.job] if known else []
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
    return Done()


def _end(job: str, *, kill: bool) -> None:
    if kill:
        commands.run(["scancel", job])
        return
    commands.run(["scancel", "--state=PENDING", job])
    # To the batch script alone: it tells the program, and waits for as long as its grace.
    commands.run(["scancel", "--batch", "--signal=TERM", job])


class Watch(watch.Watch):
    """See `shared.watch`: each task that runs looks, and the first that sees it takes the run's
    other jobs back."""

    def take_back(self) -> None:
        """Has Slurm forget those that wait. Where it does not answer, what is about to begin sees
        by itself that it must not."""
        known = submissions.read(self.folder)
        for job in [part.job for part in known.parts if part.job] if known else ():
            with contextlib.suppress(commands.Refused, Fault):
                commands.run(["scancel", "--state=PENDING", job])
