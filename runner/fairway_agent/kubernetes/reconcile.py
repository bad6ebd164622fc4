"""Asks the API server where runs stand, and writes it into their folders.

See `fairway_agent.reconcile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control
from fairway_agent.kubernetes.api import BATCH, CONTROLLER, Api, job_name
from fairway_agent.kubernetes.objects import condition, look, moment
from fairway_agent.kubernetes.task_state import PATIENCE, is_pending, stuck, view_of, why_pending
from fairway_agent.limits import Watch
from fairway_agent.reconcile import JobView, Reconciliation
from fairway_agent.records import Damaged
from fairway_agent.shared import receive, states
from fairway_agent.shared.reports import StatesReport, StatesRequest
from fairway_agent.state_files import CANCELLED, goes_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.objects import Object, Objects
    from fairway_agent.shared.receive import Submission
    from fairway_agent.state_files import TaskState

_GONE = JobView("lost", "its Job is gone from Kubernetes")


REQUEST = StatesRequest


def answer(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """See `shared.states`; one look at the API server for all of the runs."""
    return states.reconciled(shared, request, lambda folders: reconcile_all(Api(), folders))


def reconcile_all(api: Api, folders: Sequence[Path]) -> dict[str, str]:
    """Brings the states of all these runs up to date, with one look at the API server. One with a
    damaged file is left as it is: returns what is said of those, by their names."""
    going = [folder for folder in folders if goes_on(folder)]
    return reconcile(api, going, look(api, [each.name for each in going])) if going else {}


def reconcile(api: Api, folders: Sequence[Path], objects: Objects) -> dict[str, str]:
    """Brings these runs up to date from `objects`. One with a damaged file is left as it is:
    returns what is said of those, by their names."""
    damaged: dict[str, str] = {}
    for folder in folders:
        try:
            with control.locked(folder):
                known = receive.read(folder)
                if known is not None and known.complete and goes_on(folder):
                    _Reconciliation(folder, known, api, objects).run()
        except Damaged as fault:
            damaged[folder.name] = str(fault)
    return damaged


class _Reconciliation(Reconciliation):
    """One run, and what the API server says of its Jobs."""

    WATCH: ClassVar = Watch

    def __init__(self, folder: Path, known: Submission, api: Api, objects: Objects) -> None:
        super().__init__(folder, known)
        self.api = api
        self.objects = objects
        self.late: dict[str, Object | None] = {}

    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """By its Job and its pods; or by the controller, where that is to make the Job."""
        cancelled = self.is_cancelled(part, index)
        if part.job:
            return self._look_at_job(part, index, status, cancelled=cancelled)
        if cancelled or self.unmet:
            return JobView("cancelled", exit_code=CANCELLED)
        if why := self._controllers_end():
            return JobView("failed", why)
        to_come = self._to_come(part)
        return JobView("queued", to_come) if to_come else _GONE

    def _look_at_job(
        self, part: Part, index: int, status: TaskState, *, cancelled: bool
    ) -> JobView | None:
        seen = view_of(self.objects, part, index)
        is_late = seen is None and not cancelled and not status.is_final
        if is_late and self._made_since(part.job) is not None:
            return None
        view, pod = seen or (_GONE, "")
        # What was listed may be older than what its pod has written since.
        has_begun = status.state == "running" and not status.stopped
        if view.state == "queued" and cancelled and not self.cancelled and not has_begun:
            # Whatever pod begins with it now ends at once, and its others go on.
            return JobView("cancelled", exit_code=CANCELLED)
        ended = self.control.ended  # by the controller
        if status.state == "queued" and (why := ended.get(part.job) or ended.get(pod)):
            return JobView("failed", why)
        return None if view.state == "queued" and has_begun and status.job == pod else view

    def _controllers_end(self) -> str:
        """Why the controller starts nothing any more; "" where it does, or is not there."""
        name = self._controller
        for pod, why in stuck(self.objects, name):
            if self.now - moment(pod["metadata"]["creationTimestamp"]) >= PATIENCE:
                return f"nothing could start it: {why}"
        if condition(self.objects.jobs.get(name) or {}, "Failed") is None:
            return ""
        last = self.control.blocked.get(CONTROLLER)
        said = f"its controller has failed for good: kubectl logs job/{name}"
        return f"{said}; {last}" if last else said

    def _to_come(self, part: Part) -> str:
        """Returns the reason why a part is pending; "" if nothing is left that would start it."""
        name = self._controller
        controller = self.objects.jobs.get(name) or self._made_since(name)
        if controller is None or condition(controller, "Complete"):
            return ""
        waits = "waiting for its turn" if part.stage == "tasks" else "waiting for other tasks"
        pending = [each for each in self.objects.pods.get(name, ()) if is_pending(each)]
        why = self.control.blocked.get(CONTROLLER, "")
        why = why_pending(pending[0]) if pending else why
        return f"{waits}: {why}" if why else waits

    @property
    def _controller(self) -> str:
        return job_name(self.folder.name, self.known.submission, CONTROLLER)

    def _made_since(self, name: str) -> Object | None:
        """A Job that was made between the list and the look at this run's folder, if it is one."""
        if name not in self.late:
            self.late[name] = self.api.get(BATCH, "jobs", name)
        return self.late[name]
