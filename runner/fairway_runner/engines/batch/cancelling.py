"""Ends a job early, with the time that its programs have to save what they hold.

Batch kills what it terminates. So running tasks are asked first, through the one way in that
the service gives: each has a file in its folder, and takes its removal for the order to end.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import client, states
from fairway_runner.engines.batch.client import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account


_FILE = "wd/fairway.running"
_PAUSE = 0.3
_MARGIN = 15.0  # seconds beyond the grace, for the way there and for what is kept

# What Batch says where somebody has ended the job, or has kept it from starting more, already.
_ENDED = frozenset({"JobBeingTerminated", "JobCompleted", "JobBeingDeleted"})
_DISABLED = frozenset({"JobDisabled", "OperationInvalidForCurrentState"})


def end_early(account: Account, job_id: str, grace: float) -> bool:
    """Ends the job; False where there is none. It is being terminated when this returns."""
    try:
        try:
            account.disable_job(job_id)
        except ServiceError as error:
            if error.code not in _DISABLED:
                raise
        _end_tasks(account, job_id, grace)
        account.terminate_job(job_id, states.CANCELLED)
    except ServiceError as error:
        if error.is_missing:
            return False
        if error.code not in _ENDED:
            raise
    return True


def end_task(account: Account, job_id: str, task: str, grace: float) -> None:
    """Ends one task of a job: asked first, where it runs, and terminated where it waits, begins
    again, or is not done when its grace is over. One that has ended stays as it is."""
    end, begun = time.monotonic() + grace + _MARGIN, None
    try:
        account.let_end(job_id, account.task(job_id, task))
        while True:
            found = account.task(job_id, task)
            state, info = str(found["state"]).lower(), found.get("executionInfo") or {}
            start = [info.get(name) for name in ("startTime", "retryCount", "requeueCount")]
            if state == "completed":
                return
            is_asked = begun is not None and begun == start
            if state != "running" or (begun is not None and not is_asked) or time.monotonic() > end:
                break
            if not is_asked and _ask(account, job_id, task):
                begun = start
            time.sleep(_PAUSE)
        account.terminate_task(job_id, task)
    except ServiceError as error:
        if not error.is_missing and error.code != "TaskCompleted":
            raise


def _ask(account: Account, job_id: str, task: str) -> bool:
    """Asks a running task to end; whether it could be asked."""
    try:
        account.delete_task_file(job_id, task, _FILE)
    except ServiceError as error:
        if error.is_missing or error.status == 409:  # it has not begun, or its node is gone
            return False
        raise
    return True


def _end_tasks(account: Account, job_id: str, grace: float) -> None:
    """Asks the running tasks, also those that begin only now, and waits until they have ended or
    their grace is over. It goes by the list: Batch's counts may lag (see Get Task Counts)."""
    asked: set[str] = set()

    def ask(task: str) -> None:
        if _ask(account, job_id, task):
            asked.add(task)

    end = time.monotonic() + grace + _MARGIN
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        while running := account.running_tasks(job_id):
            list(pool.map(ask, set(running) - asked))
            if time.monotonic() >= end:
                return
            time.sleep(_PAUSE)


def note_cancelled(run: str, submission: int, task: str, storage: Storage) -> None:
    """Notes in storage that a person has ended a task: Batch itself does not tell."""
    storage.upload(OUTPUTS, f"{client.cancelled_folder(run, submission)}{task}", b"")


@dataclass
class CancelledTasks:
    """Tasks that a person has ended, each by itself, of one submission of a run."""

    run: str
    submission: int
    storage: Storage

    def has(self, task: Mapping[str, Any]) -> bool:
        """True if the task is cancelled. The notes are read once, and only if need be."""
        is_ended = states.is_ended_early(task.get("executionInfo") or {})
        return is_ended and str(task["id"]) in self._noted

    @cached_property
    def _noted(self) -> frozenset[str]:
        folder = client.cancelled_folder(self.run, self.submission)
        found = self.storage.blobs(OUTPUTS, folder)
        return frozenset(blob.name.removeprefix(folder) for blob in found)
