"""Asks the API server where runs stand, and writes it into their folders.

See `fairway_agent.reconcile`. Standard library only.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fairway_agent import control
from fairway_agent.fields import Damaged
from fairway_agent.kubernetes import names, whys
from fairway_agent.kubernetes.api import BATCH
from fairway_agent.kubernetes.hopeless import Hopeless
from fairway_agent.kubernetes.objects import condition, look
from fairway_agent.kubernetes.task_state import is_pending, view_of, why_pending
from fairway_agent.reconcile import JobView, Reconciliation, goes_on
from fairway_agent.shared import after, plans, submissions
from fairway_agent.shared.watch import Watch
from fairway_agent.task_state import CANCELLED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.api import Api
    from fairway_agent.kubernetes.objects import Object, Objects
    from fairway_agent.plan import RunPlan
    from fairway_agent.run_state import RunState
    from fairway_agent.shared.submissions import Submission
    from fairway_agent.task_state import TaskState

_GONE = JobView("lost", "its Job is gone from Kubernetes")


def reconcile_all(api: Api, folders: Sequence[Path]) -> dict[str, str]:
    """Brings the states of all these runs up to date, with one look at the API server. One with a
    damaged file is left as it is: returns what is said of those, by their names."""
    damaged: dict[str, str] = {}
    going = [folder for folder in folders if goes_on(folder)]
    if not going:
        return damaged
    objects = look(api, [folder.name for folder in going])
    for folder in going:
        try:
            with control.locked(folder):
                known = submissions.read(folder)
                if known is not None and known.complete and goes_on(folder):
                    _Reconciliation(folder, known, api, objects).run()
        except Damaged as fault:
            damaged[folder.name] = str(fault)
    return damaged


class _Reconciliation(Reconciliation):
    """One run, and what the API server says of its Jobs."""

    def __init__(self, folder: Path, known: Submission, api: Api, objects: Objects) -> None:
        super().__init__(folder, known)
        self.api = api
        self.objects = objects
        self.late: dict[str, Object | None] = {}
        self.hopeless = Hopeless(folder, self.now)
        if not self.cancelled:
            self.hopeless.end(api, objects, known, self.begun)

    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """By its Job and its pods; or by its keeper, where that is to make the Job."""
        cancelled = self.is_cancelled(part, index)
        if part.job:
            return self._look_at_job(part, index, status, cancelled=cancelled)
        if cancelled or self.blocked:
            return JobView("cancelled", exit_code=CANCELLED)
        if why := self._keepers_end():
            return JobView("failed", why)
        to_come = self._to_come(part)
        return JobView("queued", to_come) if to_come else _GONE

    def _look_at_job(
        self, part: Part, index: int, status: TaskState, *, cancelled: bool
    ) -> JobView | None:
        seen = view_of(self.objects, part, index, self.now)
        is_late = seen is None and not cancelled and not status.is_final
        if is_late and self._made_since(part.job) is not None:
            return None
        view, pod = seen or (_GONE, "")
        # What was listed may be older than what its pod has written since.
        has_begun = status.state == "running" and not status.stopped
        if view.state == "queued" and cancelled and not self.cancelled and not has_begun:
            # Whatever pod begins with it now ends at once, and its others go on.
            return JobView("cancelled", exit_code=CANCELLED)
        if status.state == "queued" and (why := self.hopeless.why(part, pod)):
            return JobView("failed", why)
        return None if view.state == "queued" and has_begun and status.job == pod else view

    def run(self) -> tuple[RunPlan, RunState]:
        """Also takes back what waits for nodes of a run that is over its limit: it would only begin
        there to see that."""
        plan, state = super().run()
        if self.over is not None and not state.is_final and not state.tasks.get("running"):
            for part in self.known.parts:
                if part.job in self.objects.jobs:
                    self.api.delete(BATCH, "jobs", part.job)
        return plan, state

    def _record(self, counts: Counter[str]) -> tuple[RunPlan, RunState]:
        """Also takes back what waits for nodes for tasks alone that were ended each by itself: it
        would wait after the run's end."""
        for part in self.known.parts if self.control.cancelled_tasks else ():
            job = self.objects.jobs.get(part.job)
            if job is None or condition(job, "Complete") or condition(job, "Failed"):
                continue
            runs = any(each["status"].get("phase") == "Running" for each in self._pods(part))
            if not runs and all(index in self.final for index in part.indices):
                self.api.delete(BATCH, "jobs", part.job)
        return super()._record(counts)

    def _pods(self, part: Part) -> Sequence[Object]:
        return self.objects.pods.get(part.job, ())

    @cached_property
    def blocked(self) -> list[str]:
        """What became of the runs that it comes after and that have ended otherwise than it
        wants."""
        plan = plans.read(self.folder, retry=self.known.submission > 0)
        number = self.known.submission
        return after.decide(self.folder, plan, number) or [] if plan.after else []

    def watch(self, plan: RunPlan) -> Watch:
        """Its tasks see by themselves that they are not to begin."""
        return Watch(self.folder, plan, self.known.submission)

    def why_not_started(self, plan: RunPlan) -> str:  # noqa: ARG002
        """Its keeper has not started it, since those that it comes after have not ended as it
        wants."""
        return f"not started: {', '.join(self.blocked)}" if self.blocked else ""

    def _keepers_end(self) -> str:
        """Why its keeper does not start anything any more; "" where it does, or is not there."""
        name = self._keeper_name
        if why := self.hopeless.whys.get(name):
            return why
        found = condition(self.objects.jobs.get(name) or {}, "Failed")
        if found is None:
            return ""
        last = whys.read(self.folder / whys.KEEPER)
        said = f"its keeper has failed for good: kubectl logs job/{name}"
        return f"{said}; {last}" if last else said

    def _to_come(self, part: Part) -> str:
        """What a part waits for; "" where nothing is there to start it any more."""
        name = self._keeper_name
        keeper = self.objects.jobs.get(name) or self._made_since(name)
        if keeper is None or condition(keeper, "Complete"):
            return ""
        waits = "waiting for its turn" if part.stage == "tasks" else "waiting for other tasks"
        pending = [each for each in self.objects.pods.get(name, ()) if is_pending(each)]
        why = why_pending(pending[0]) if pending else whys.read(self.folder / whys.KEEPER)
        return f"{waits}: {why}" if why else waits

    @property
    def _keeper_name(self) -> str:
        return names.job(self.folder.name, self.known.submission, names.KEEPER)

    def _made_since(self, name: str) -> Object | None:
        """A Job that was made between the list and the look at this run's folder, if it is one."""
        if name not in self.late:
            self.late[name] = self.api.get(BATCH, "jobs", name)
        return self.late[name]
