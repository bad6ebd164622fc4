"""The tasks of other runs for which tasks of a run wait by equal point, as Slurm knows them.

Slurm waits until these have ended, however: none of its dependencies knows exit codes, and the one
between elements of two arrays (`aftercorr`) knows success alone. How they have ended each task's
own job looks at, see `fairway_agent.equal_tasks`. Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import state_files
from fairway_agent.faults import Fault
from fairway_agent.fields import Damaged
from fairway_agent.reconcile import goes_on
from fairway_agent.shared import submissions
from fairway_agent.slurm.reconcile import reconcile_all

if TYPE_CHECKING:
    from fairway_agent.plan import RunPlan
    from fairway_agent.shared.submissions import Part


class GoingTasks:
    """Those that go on. Fault where such a run is not with Slurm as a whole: its tasks have no
    jobs yet to wait for."""

    def __init__(self, plan: RunPlan) -> None:
        folders = [Path(each) for each in plan.equal]
        reconcile_all(folders)
        self._jobs: dict[tuple[str, int], str] = {}
        for folder in filter(goes_on, folders):
            known = submissions.read(folder)
            if known is None or not known.complete:
                message = f"`after`: {folder.name} has not been submitted yet"
                hint = f"finish that first: fairway submit --resume {folder.name}"
                raise Fault("failed-predecessor", message, hint, 2)
            for part in known.parts:
                for index in part.indices if part.stage == "tasks" and part.job else ():
                    self._jobs[folder.name, index] = _name(*part.element(index))

    def dependency(self, run: Path, part: Part) -> str:
        """What a part of a run waits for, all tasks of which wait for the same; "" where that has
        ended. Tasks of a retry that have begun before wait for nothing."""
        if not self._jobs or part.stage != "tasks":
            return ""
        first = part.indices[0]
        own = state_files.read_task(part.task_folder(run, first))
        if own is not None and own.attempts:
            return ""
        awaited = submissions.spec_of(run, part.stage, first).equal.items()
        jobs = [self._jobs[each] for each in awaited if each in self._jobs and _goes_on(run, *each)]
        return f"afterany:{':'.join(jobs)}" if jobs else ""


def _name(job: str, element: int) -> str:
    """A task's job as Slurm's commands take it."""
    return job if element < 0 else f"{job}_{element}"


def _goes_on(run: Path, other: str, index: int) -> bool:
    """Whether a task of another run has not ended: Slurm forgets jobs that have."""
    try:
        known = state_files.read_task(run.parent / other / "tasks" / str(index))
    except Damaged:
        return False  # which the task's job will say
    return known is None or not known.is_final
