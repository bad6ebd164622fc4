"""Ends one task of a run early: at once where it waits, with its signal and grace where it runs.

Standard library only.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent import cancelled_tasks, record
from fairway_agent.kubernetes import owner
from fairway_agent.kubernetes.api import BATCH, CORE, Api
from fairway_agent.kubernetes.objects import JOB, index_of, is_over
from fairway_agent.shared import submissions
from fairway_agent.shared.reports import Done, TaskCancelRequest

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.shared.submissions import Part

REQUEST = TaskCancelRequest


def answer(
    shared: Path,
    request: TaskCancelRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Notes it, by which nothing of the task begins any more, and deletes what there is of it."""
    folder = shared / "runs" / request.run
    if not folder.is_dir():
        return Done()
    api = Api()
    with record.alone(folder / "submit.lock"):
        cancelled_tasks.cancel(folder, request.task, request.submission)
        known = submissions.read(folder)
    for part in known.parts if known is not None else ():
        tasks = [part.task_folder(folder, index).name for index in part.indices]
        if part.job and request.task in tasks:
            _end(api, folder, part, tasks.index(request.task))
    return Done()


def _end(api: Api, folder: Path, part: Part, position: int) -> None:
    """The whole Job of a task that has one; else the pod of its index, which is not made again."""
    if len(part.indices) == 1:
        for job in owner.jobs(api, folder):
            if job["metadata"]["name"] == part.job:
                api.delete(BATCH, "jobs", part.job)
        return
    for pod in api.list(CORE, "pods", {"labelSelector": f"{JOB}={part.job}"}):
        if index_of(pod) == position and not is_over(pod) and owner.owns(folder, pod):
            api.delete(CORE, "pods", pod["metadata"]["name"])
