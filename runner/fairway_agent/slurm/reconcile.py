"""Asks Slurm where runs stand, and writes it into their folders.

See `fairway_agent.reconcile`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control, job_facts, notify, state_files
from fairway_agent.reconcile import JobView, Reconciliation
from fairway_agent.records import Damaged
from fairway_agent.shared import receive, states
from fairway_agent.shared.reports import StatesReport, StatesRequest
from fairway_agent.slurm.cancel import Watch
from fairway_agent.slurm.jobs import jobs_named, look_up, view_of
from fairway_agent.state_files import CANCELLED, TaskState, goes_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.shared.receive import Submission
    from fairway_agent.slurm.jobs import Element


REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; one squeue for all of the runs."""
    return states.reconciled(shared, request, reconcile_all)


def reconcile_all(folders: Sequence[Path]) -> dict[str, str]:
    """Brings the states of all these runs up to date, with one look at Slurm. One with a damaged
    file is left as it is: returns what is said of those, by their names."""
    damaged: dict[str, str] = {}
    going = [folder for folder in folders if goes_on(folder)]
    if not going:
        return damaged
    listed = jobs_named(folder.name for folder in going)
    jobs = {(element.job, element.index): element for element in listed}
    for folder in going:
        news = None
        try:
            with control.locked(folder):
                known = receive.read(folder)
                if known is not None and known.complete and goes_on(folder):
                    plan, state = _Reconciliation(folder, known, jobs).run()
                    news = (plan, state) if notify.should_notify(folder, plan, state) else None
        except Damaged as fault:
            damaged[folder.name] = str(fault)
        if news is not None:
            notify.send(folder, *news, waits="SLURM_JOB_ID" in os.environ)
    return damaged


def notify_end(folder: Path) -> None:
    """In the last job of a run: brings its state up to date, and has its end told, also where
    somebody without its secrets has seen it before."""
    reconcile_all([folder])
    with control.locked(folder):
        known, state = receive.read(folder), state_files.read_run(folder)
        if known is None or state is None or not state.is_final:
            return
        plan = job_facts.read_shared_plan(folder, retry=known.submission > 0)
        if not notify.should_notify(folder, plan, state):
            return
    notify.send(folder, plan, state, waits="SLURM_JOB_ID" in os.environ)


class _Reconciliation(Reconciliation):
    """One run, and what Slurm says of its jobs."""

    WATCH: ClassVar = Watch

    def __init__(
        self, folder: Path, known: Submission, jobs: Mapping[tuple[str, int], Element]
    ) -> None:
        super().__init__(folder, known)
        self.jobs = jobs

    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """By what squeue says of its element, or sacct; without a job it was not to begin."""
        job, element = part.element(index)
        if not job:
            return JobView("cancelled", exit_code=CANCELLED)
        found = self.jobs.get((job, element))
        if found is None and not status.is_final and not self.is_cancelled(part, index):
            found = look_up(job, element)
        if found is not None:
            return view_of(found, self.now, status.node or "")
        if status == TaskState() and self.unmet:
            # Slurm has forgotten that it has taken back one that never began.
            return JobView("cancelled", exit_code=CANCELLED)
        return JobView("lost", "Slurm does not know its job")

    def refresh(self, others: Sequence[Path]) -> None:
        """By another look at Slurm."""
        reconcile_all(others)
