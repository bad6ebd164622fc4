"""Tasks that the service does not take, each in an answer of its own."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import submission

TASKS = [{"id": "0"}, {"id": "1"}]


def sending(answer: Any) -> Any:
    """A submission to an account that answers so."""

    def add_tasks(_job: str, chunk: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return [{"taskId": task["id"], **answer} for task in chunk]

    calls = SimpleNamespace(deadline=0.0, stopped=SimpleNamespace(wait=lambda _: False))
    account: Any = SimpleNamespace(add_tasks=add_tasks, calls=calls)
    none: Any = None
    return submission.Submission(none, account, none, none)


def test_a_task_that_is_too_large_is_named() -> None:
    too_large = ServiceError(Finding("refused", "413"), status=413, code="RequestBodyTooLarge")
    with pytest.raises(ServiceError) as caught:
        sending(too_large)._add_chunk("job", TASKS)
    [finding] = caught.value.findings
    assert finding.message == "task 0 is larger than Azure Batch accepts"
    assert (caught.value.status, caught.value.exit_code) == (413, 2)


def test_batch_submission_names_a_refused_task_and_the_reason() -> None:
    error = {"code": "InvalidPropertyValue", "message": {"value": "no such pool"}}
    with pytest.raises(ServiceError) as caught:
        sending({"status": "clienterror", "error": error})._add_chunk("job", TASKS)
    said = "Azure Batch refuses task 0: InvalidPropertyValue: no such pool"
    assert caught.value.findings[0].message == said


def test_batch_submission_counts_tasks_not_taken_in_time() -> None:
    error = {"code": "ServerBusy", "message": {"value": "later"}}
    with pytest.raises(ServiceError) as caught:
        sending({"status": "servererror", "error": error})._add_chunk("job", TASKS)
    said = "Azure Batch could not take 2 tasks: ServerBusy: later"
    assert caught.value.findings[0].message == said


def test_batch_submission_failure_does_not_stop_later_calls() -> None:
    """The others of its threads are told to stop, and nobody after them."""
    failed = sending(ServiceError(Finding("refused", "no"), status=400, code="Bad"))
    told: list[bool] = []

    class Stopped(threading.Event):
        def set(self) -> None:
            told.append(True)
            super().set()

    stopped = failed.account.calls.stopped = Stopped()
    with pytest.raises(ServiceError):
        failed._add(TASKS, "job")
    assert told == [True]
    assert not stopped.is_set()
