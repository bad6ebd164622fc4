"""Asks the API server for the states of runs, writes them into their folders, and ends and removes
runs."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from fairway_agent import control, job_facts
from fairway_agent.kubernetes.api import CONTROLLER, PART, RUN, Api, job_name, run_label
from fairway_agent.kubernetes.objects import (
    JOB,
    find_condition,
    has_ended,
    index_of,
    jobs_of,
    look,
    owns,
    parse_time,
    selector,
)
from fairway_agent.kubernetes.task_state import (
    GONE,
    PATIENCE,
    is_pending,
    stuck_pods,
    view_of,
    why_pending,
)
from fairway_agent.reconcile import JobView, Reconciliation, reconcile
from fairway_agent.records import UnreadableFile
from fairway_agent.shared import runs
from fairway_agent.state_files import CANCELLED, is_active
from fairway_boot import files

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from fairway_agent.control import Control, Part
    from fairway_agent.kubernetes.objects import Objects
    from fairway_agent.shared.reports import (
        CancelRequest,
        Done,
        RunsReport,
        RunsRequest,
        StatesReport,
        StatesRequest,
    )
    from fairway_agent.state_files import TaskState


# Seconds until the pods of a deleted Job must have ended, with their grace, and between two polls.
_LONGEST_END = 120.0
_PAUSE = 0.5


def cancel(shared: Path, request: CancelRequest, _: object) -> Done:
    """Ends a run, or a task of it. If somebody has removed the run's folder, waits until the pods
    have ended, as they write there. Raises AgentError if they have not after 120 seconds."""
    folder, run, claims = shared / "runs" / request.run, request.run, request.marks
    if claims and not request.task and not (folder / "plan.json").exists():
        api, end = Api(), time.monotonic() + _LONGEST_END
        delete(api, folder, claims=claims)
        while active := jobs_of(api, folder, claims):
            if time.monotonic() > end:
                text = f"the folder of {run} is gone, and its Job that was deleted has pods: "
                text += active[0]["metadata"]["name"]
                pods = f"kubectl get pods -l {RUN}={run_label(run)}"
                hint = f"once they have ended ({pods}): fairway cancel {run}"
                raise files.AgentError("not-cancelled", text, hint, 5)
            time.sleep(_PAUSE)
        runs.remove(folder)  # pods have written there since
    return runs.cancel(shared, request, _cancel_run, _cancel_task)


def _cancel_run(folder: Path, request: CancelRequest) -> None:
    """Cancels the run's submission, even one that another process is still making."""
    api, spared = Api(), ""
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        with suppress(UnreadableFile, OSError):  # damaged or full
            control.cancel(folder, request.submission)
            known = control.read(folder)
            # If the end is to be notified, the controller stays until it has done so.
            if known.complete and job_facts.read_plan(folder).notify is not None:
                spared = job_name(folder.name, known.submission, CONTROLLER)
        delete(api, folder, spared)
    if request.kill:
        for pod in api.list("pods", selector(folder.name)):
            is_spared = spared and pod["metadata"]["labels"].get(PART) == CONTROLLER
            if owns(folder, pod) and not is_spared:
                api.delete("pods", pod["metadata"]["name"], at_once=True)


def delete(api: Api, folder: Path, spared: str = "", claims: Collection[str] | None = None) -> None:
    """Deletes all Jobs of a run except the `spared` one; their pods have their grace."""
    for job in jobs_of(api, folder, claims):
        if job["metadata"]["name"] != spared:
            api.delete("jobs", job["metadata"]["name"])


def _cancel_task(folder: Path, request: CancelRequest) -> None:
    """Records the cancellation, so that nothing of the task starts any more, and deletes its
    objects."""
    api = Api()
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        with suppress(OSError):  # full
            control.cancel(folder, request.submission, request.task)
        parts = control.read(folder).parts
    for part in parts:
        if not part.job or request.task not in part.names:
            continue
        if len(part.indices) == 1:  # the task has its own Job
            if any(job["metadata"]["name"] == part.job for job in jobs_of(api, folder)):
                api.delete("jobs", part.job)
            continue
        # Otherwise the task is one pod of a Job, whose index is not restarted.
        position = part.names.index(request.task)
        for pod in api.list("pods", {"labelSelector": f"{JOB}={part.job}"}):
            if index_of(pod) == position and not has_ended(pod) and owns(folder, pod):
                api.delete("pods", pod["metadata"]["name"])


def remove(shared: Path, request: RunsRequest, payload: IO[bytes]) -> RunsReport:
    """Deletes the run's Jobs, and then the run."""
    if request.remove is not None:
        folder = shared / "runs" / request.remove
        if not runs.is_another(folder, request.created):
            delete(Api(), folder)
    return runs.runs(shared, request, payload)


def states(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    """Reports the states of the runs, after one look at the API server for all of them."""
    return runs.reconciled(shared, request, lambda folders: reconcile_all(Api(), folders))


def reconcile_all(
    api: Api, folders: Sequence[Path], objects: Objects | None = None
) -> dict[str, UnreadableFile]:
    """Updates the states of all these runs, from one look at the API server, or from `objects`.
    Runs with a damaged file are left alone, and the errors returned by the run's name."""
    active = [folder for folder in folders if is_active(folder)]
    if not active:
        return {}
    seen = objects or look(api, [each.name for each in active])
    return reconcile(active, lambda folder, known: _Reconciliation(folder, known, api, seen))


class _Reconciliation(Reconciliation):
    """One run, and the API server's view of its Jobs."""

    def __init__(self, folder: Path, known: Control, api: Api, objects: Objects) -> None:
        super().__init__(folder, known)
        self.api = api
        self.objects = objects

    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """Looks at its Job and pods, or at the controller if that is yet to create the Job."""
        cancelled = self.is_cancelled(part, index)
        if not part.job:
            name = job_name(self.folder.name, self.control.submission, part.number)
            if name in self.objects.jobs:  # its creator could not record it
                part = replace(part, job=name)
        if not part.job:
            is_off = cancelled or self.failed_dependencies
            return JobView("cancelled", exit_code=CANCELLED) if is_off else self._to_come(part)
        view, pod = view_of(self.objects, part, index)
        # The listed objects may be older than what the pod has written since.
        has_begun = status.state == "running" and not status.stopped
        if view.state == "queued" and cancelled and not self.cancelled and not has_begun:
            # A pod that starts with it now ends at once, and the other tasks continue.
            return JobView("cancelled", exit_code=CANCELLED)
        ended = self.control.ended  # ended by the controller
        if status.state == "queued" and (why := ended.get(part.job) or ended.get(pod)):
            return JobView("failed", why)
        return None if view.state == "queued" and has_begun and status.job == pod else view

    def list_again(self) -> None:
        self.objects = look(self.api, [self.folder.name])

    def _to_come(self, part: Part) -> JobView:
        """Returns the view of a part that has no Job yet: it waits for the controller, unless that
        is gone, or starts nothing any more."""
        name = job_name(self.folder.name, self.control.submission, CONTROLLER)
        for pod, why in stuck_pods(self.objects, name):
            if self.now - parse_time(pod["metadata"]["creationTimestamp"]) >= PATIENCE:
                return JobView("failed", f"nothing could start it: {why}")
        controller, why = self.objects.jobs.get(name), self.control.blocked.get(CONTROLLER, "")
        if controller is None or find_condition(controller, "Complete"):
            return GONE
        if find_condition(controller, "Failed"):
            said = f"its controller has failed for good: kubectl logs job/{name}"
            return JobView("failed", f"{said}; {why}" if why else said)
        waits = "waiting for its turn" if part.stage == "tasks" else "waiting for other tasks"
        if pending := [each for each in self.objects.pods.get(name, ()) if is_pending(each)]:
            why = why_pending(pending[0])
        return JobView("queued", f"{waits}: {why}" if why else waits)
