"""Asks Slurm for the states of runs, writes them into their folders, and ends runs early."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control, job_facts, limits, notify, state_files
from fairway_agent.reconcile import JobView, Reconciliation, reconcile
from fairway_agent.records import UnreadableFile
from fairway_agent.shared import runs
from fairway_agent.slurm.jobs import ENDED, WAITING, jobs_named, look_up, renamed, view_of
from fairway_agent.state_files import CANCELLED, TaskState, is_active
from fairway_boot import files
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from fairway_agent.control import Control, Part
    from fairway_agent.shared.reports import CancelRequest, Done, StatesReport, StatesRequest
    from fairway_agent.slurm.jobs import SlurmJob
    from fairway_agent.spec import RunPlan
    from fairway_agent.state_files import RunState


# Seconds until a cancelled job must have ended: Slurm kills processes after its KillWait, by
# default 30. And seconds between two polls.
_LONGEST_END = 120.0
_PAUSE = 0.5


def cancel(shared: Path, request: CancelRequest, _: object) -> Done:
    """Ends a run, or a task of it. Waits for the jobs of a run whose folder was removed by hand:
    they write there. Their comment has to say whose they are, as Slurm reuses job numbers."""
    folder, run = shared / "runs" / request.run, request.run
    if request.marks and not request.task and not (folder / "plan.json").exists():
        named = [each for each in jobs_named([run]) if each.job in request.marks]
        mine = [each for each in named if each.comment.startswith(control.own_comment(folder))]
        if active := list(dict.fromkeys(each.job for each in mine if each.state not in ENDED)):
            with suppress(commands.CommandFailed):  # it has ended
                commands.run(["scancel", *active])
            what = f"the folder of {run} is gone, and its job that was cancelled has not ended"
            await_end(run, active, what, f"fairway cancel {run}")
        runs.remove(folder)  # tasks have written there since
    return runs.cancel(shared, request, _cancel_run, _cancel_task)


def _cancel_run(folder: Path, request: CancelRequest) -> None:
    """Cancels the run's submission, even one that another process is still making."""
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        jobs: list[str] = []
        # If the disk is full or a file damaged, Slurm still lists the unfinished jobs.
        with suppress(UnreadableFile, OSError):
            jobs = control.read(folder).jobs
            control.cancel(folder, request.submission)
        mark, listed = control.own_comment(folder), jobs_named([folder.name])
        found = [each for each in listed if each.comment.startswith(mark)]
    for job in dict.fromkeys([*jobs, *(each.job for each in found)]):
        with suppress(commands.CommandFailed):  # it has ended
            if request.kill:
                commands.run(["scancel", job])
                continue
            commands.run(["scancel", "--state=PENDING", job])
            _ask(job)
    # Nothing of these runs yet that could be signalled.
    if starting := [each.id for each in found if each.state == "CONFIGURING"]:
        with suppress(commands.CommandFailed):
            commands.run(["scancel", *starting])


def await_end(run: str, jobs: Collection[str], what: str, then: str) -> None:
    """Waits until Slurm has ended these jobs of the run. Raises AgentError, which says `what` is
    wrong and what to type `then`, if that takes too long."""
    end = time.monotonic() + _LONGEST_END
    while active := [
        each.id for each in jobs_named([run]) if each.job in jobs and each.state not in ENDED
    ]:
        if time.monotonic() > end:
            hint = f"once it has ended (squeue -j {active[0]}): {then}"
            raise AgentError("not-cancelled", f"{what}: {active[0]}", hint, 5)
        time.sleep(_PAUSE)


def _ask(job: str) -> None:
    """Signals only the batch script, which passes it on and waits for the program's grace."""
    commands.run(["scancel", "--batch", "--signal=TERM", job])


def _cancel_task(folder: Path, request: CancelRequest) -> None:
    """Records the cancellation, so that a task that is just starting ends too, and signals its
    job."""
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        with suppress(OSError):  # full
            control.cancel(folder, request.submission, request.task)
        parts = control.read(folder).parts
    mine = [
        part.job_and_index(part.indices[part.names.index(request.task)])
        for part in parts
        if part.job and request.task in part.names
    ]
    for job in jobs_named([folder.name]) if mine else ():
        if (job.job, job.index) in mine:
            with suppress(commands.CommandFailed):  # it has ended
                # Not `--state=PENDING`: it cancels all pending elements of an array (22.05).
                if job.state in WAITING:
                    commands.run(["scancel", job.id])
                else:
                    _ask(job.id)


class Watch(limits.Watch):
    """Watch that removes the run's pending jobs; see `limits`."""

    def take_back(self) -> None:
        """Cancels pending jobs; if Slurm does not answer, each sees by itself that it must not
        begin."""
        for job in control.read(self.folder).jobs:
            with suppress(commands.CommandFailed, AgentError):
                commands.run(["scancel", "--state=PENDING", job])


def states(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """Reports the states of the runs, after one squeue for all of them."""
    return runs.reconciled(shared, request, reconcile_all)


def reconcile_all(folders: Sequence[Path]) -> dict[str, UnreadableFile]:
    """Updates the states of all these runs, with one look at Slurm. Runs with a damaged file are
    left alone, and the errors returned by the run's name."""
    active = [folder for folder in folders if is_active(folder)]
    if not active:
        return {}
    jobs = _listed(active)
    return reconcile(active, lambda folder, known: _Reconciliation(folder, known, jobs), _tell)


def _listed(folders: Iterable[Path]) -> dict[tuple[str, int], SlurmJob]:
    """Returns the jobs of these runs, by their ids and indices."""
    listed = jobs_named(folder.name for folder in folders)
    return {(element.job, element.index): element for element in listed}


def _tell(folder: Path, plan: RunPlan, state: RunState) -> None:
    notify.send(folder, plan, state, waits="SLURM_JOB_ID" in os.environ)


def notify_end(folder: Path) -> None:
    """Updates the run's state in its last job, and reports its end, even if a process without the
    run's secrets has noticed it before."""
    reconcile_all([folder])
    with control.locked(folder):
        state = state_files.read_run(folder)
        if state is None or not state.is_final:
            return
        plan = job_facts.read_plan(folder)
        if not notify.should_notify(folder, plan, state):
            return
    _tell(folder, plan, state)


class _Reconciliation(Reconciliation):
    """One run, and Slurm's view of its jobs."""

    WATCH: ClassVar = Watch

    def __init__(self, folder: Path, known: Control, jobs: dict[tuple[str, int], SlurmJob]) -> None:
        super().__init__(folder, known)
        self.jobs = jobs
        self.others: dict[str, dict[int, SlurmJob]] = {}  # of jobs that no longer have its name

    @cached_property
    def marked(self) -> dict[str, str]:
        """The listed jobs by their comments; of several, one that has not ended."""
        listed = sorted(self.jobs.values(), key=lambda each: each.state not in ENDED)
        return {each.comment: each.job for each in listed}

    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """Looks the element up in squeue, or in sacct. A task without a job was not to begin,
        unless Slurm lists one that its submitter could not record."""
        job, element = part.job_and_index(index)
        comment = part.comment(self.folder, self.control.submission)
        if not job and not (job := self.marked.get(comment, "")):
            return JobView("cancelled", exit_code=CANCELLED)
        found = self.jobs.get((job, element))
        if found is None and not status.is_final:
            if job not in self.others:
                self.others[job] = {each.index: each for each in renamed(job, comment)}
            found = self.others[job].get(element)
        if found is None and not status.is_final and not self.is_cancelled(part, index):
            found = look_up(job, element)
        if found is not None:
            return view_of(found, self.now, status.node or "")
        if status == TaskState() and self.failed_dependencies:
            # Slurm has forgotten the job, which was withdrawn before it started.
            return JobView("cancelled", exit_code=CANCELLED)
        return JobView("lost", "Slurm does not know its job")

    def list_again(self) -> None:
        self.jobs = _listed([self.folder])
        self.others.clear()
        self.__dict__.pop("marked", None)

    def refresh(self, others: Sequence[Path]) -> None:
        """Looks at Slurm again."""
        reconcile_all(others)
