"""Ends a run or one task of it early: what waits at once, what runs with its signal and grace."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts
from fairway_agent.kubernetes.api import BATCH, CONTROLLER, CORE, PART, Api, job_name
from fairway_agent.kubernetes.objects import JOB, index_of, is_over, jobs_of, owns, selector
from fairway_agent.records import Damaged
from fairway_agent.shared import receive
from fairway_agent.shared.reports import CancelRequest, Done
from fairway_boot import files

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.control import Part

REQUEST = CancelRequest


def answer(shared: Path, request: CancelRequest, _: object) -> Done:
    """Ends a submission, or a task of it."""
    folder = shared / "runs" / request.run
    if folder.is_dir():
        if request.task:
            _cancel_task(Api(), folder, request)
        else:
            _cancel(Api(), folder, request)
    return Done()


def _cancel(api: Api, folder: Path, request: CancelRequest) -> None:
    """Cancels the run's submission, also one that another process is still making."""
    with files.alone(folder / control.SUBMIT_LOCK):
        with suppress(Damaged):
            control.cancel(folder, request.submission)
        spared = _teller(folder)
        delete(api, folder, spared)
    if request.kill:
        for pod in api.list(CORE, "pods", selector(folder.name)):
            if not owns(folder, pod):
                continue
            if not spared or pod["metadata"]["labels"].get(PART) != CONTROLLER:
                api.delete(CORE, "pods", pod["metadata"]["name"], at_once=True)


def delete(api: Api, folder: Path, spared: str = "") -> None:
    """Deletes all Jobs of a run but the one that is `spared`; their pods have their grace."""
    for job in jobs_of(api, folder):
        if job["metadata"]["name"] != spared:
            api.delete(BATCH, "jobs", job["metadata"]["name"])


def _teller(folder: Path) -> str:
    """The controller of a run of whose end somebody wants to hear: it ends once it has told that.
    "" where nobody does, or where it would wait for ever."""
    try:
        known = receive.read(folder)
        if known is None or not known.complete:
            return ""
        wants = job_facts.read_shared_plan(folder, retry=known.submission > 0).notify is not None
    except Damaged:
        return ""
    return job_name(folder.name, known.submission, CONTROLLER) if wants else ""


def _cancel_task(api: Api, folder: Path, request: CancelRequest) -> None:
    """Notes it, by which nothing of the task begins any more, and deletes what there is of it."""
    with files.alone(folder / control.SUBMIT_LOCK):
        control.cancel(folder, request.submission, request.task)
        parts = control.read(folder).parts
    for part in parts:
        tasks = [part.task_folder(folder, index).name for index in part.indices]
        if part.job and request.task in tasks:
            _end(api, folder, part, tasks.index(request.task))


def _end(api: Api, folder: Path, part: Part, position: int) -> None:
    """The whole Job of a task that has one; else the pod of its index, which is not made again."""
    if len(part.indices) == 1:
        for job in jobs_of(api, folder):
            if job["metadata"]["name"] == part.job:
                api.delete(BATCH, "jobs", part.job)
        return
    for pod in api.list(CORE, "pods", {"labelSelector": f"{JOB}={part.job}"}):
        if index_of(pod) == position and not is_over(pod) and owns(folder, pod):
            api.delete(CORE, "pods", pod["metadata"]["name"])
