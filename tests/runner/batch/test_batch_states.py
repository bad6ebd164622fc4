"""States of Batch's runs and tasks, as a run's folder records them."""

from dataclasses import replace
from typing import Any

import pytest

from fairway_runner.engines.batch import states

ACTIVE = {"state": "active"}
DONE = {"state": "completed", "executionInfo": {"endTime": "2026-03-01T12:00:10Z"}}
CANCELLED = {
    "state": "completed",
    "executionInfo": {"terminateReason": states.CANCELLED, "endTime": "2026-03-01T12:00:10Z"},
}
BEGAN, ENDED = "2026-03-01T12:00:00Z", "2026-03-01T12:00:05Z"
MOVED = "its node was taken away; it starts again on another"


def status(state: str, job: Any = ACTIVE, timeout: float | None = None, **info: Any) -> Any:
    task = {"id": "0", "state": state, "executionInfo": {"retryCount": 0, "requeueCount": 0} | info}
    return states.task_status(task, job, 0, timeout)


@pytest.mark.parametrize(
    ("state", "info", "expected", "reason"),
    [
        ("active", {}, ("queued", -1, 0), "waiting for nodes"),
        ("preparing", {}, ("queued", -1, 0), "its node is being prepared for the job"),
        ("active", {"requeueCount": 1}, ("queued", 0, 1), MOVED),
        ("running", {"startTime": BEGAN, "retryCount": 1}, ("running", 1, 0), None),
        (
            "running",
            {"startTime": BEGAN, "retryCount": 1, "requeueCount": 1},
            ("running", 2, 1),
            None,
        ),
    ],
)
def test_batch_task_that_has_not_ended_has_state_attempt_and_reason(
    state: str, info: dict[str, Any], expected: tuple[str, int, int], reason: str | None
) -> None:
    found = status(state, **info)
    assert (found.state, found.attempt, found.requeues) == expected
    assert (found.reason, found.started) == (
        reason,
        1772366400.0 if info.get("startTime") else None,
    )


def test_batch_task_preempted_without_a_requeue_count_counts_an_attempt() -> None:
    # Azure counts only retries and requested requeues: see the descriptions of
    # retry_count and requeue_count in azure-batch.
    task: dict[str, Any] = {"state": "running", "executionInfo": {"startTime": BEGAN}}
    first = states.task_status(task, ACTIVE, 0, None)
    assert (first.attempt, first.requeues) == (0, 0)
    waits = states.task_status({"state": "active", "executionInfo": {}}, ACTIVE, 0, None, first)
    assert (waits.state, waits.attempt, waits.requeues) == ("queued", 0, 1)
    assert "taken away" in str(waits.reason)
    task["executionInfo"] = {"startTime": ENDED}
    second = states.task_status(task, ACTIVE, 0, None, waits)
    assert (second.attempt, second.requeues) == (1, 1)
    assert states.task_status(task, ACTIVE, 0, None, second).attempt == 1
    second = states.count_up(second, 3)
    assert (second.attempt, second.requeues) == (3, 3)


def test_batch_task_succeeds_with_its_result_or_is_cancelled_with_its_job() -> None:
    found = status("completed", startTime=BEGAN, endTime=ENDED, exitCode=0, result="success")
    assert (found.state, found.exit_code, found.ended) == ("succeeded", 0, 1772366405.0)
    assert status("active", CANCELLED).state == "cancelled"


def test_batch_task_that_has_ended_keeps_its_known_state_unless_cancelled() -> None:
    """The known state includes the task's own report."""
    info = {"startTime": BEGAN, "endTime": ENDED, "exitCode": 130, "result": "failure"}
    task = {"id": "0", "state": "completed", "executionInfo": info}
    known = replace(states.task_status(task, ACTIVE, 0, None), reason="its own words", held=5.0)
    assert states.task_status(task, ACTIVE, 0, None, known) == known
    assert states.task_status(task, CANCELLED, 0, None, known).state == "cancelled"
    again = {**task, "executionInfo": {**info, "endTime": "2026-03-01T12:00:09Z"}}
    assert states.task_status(again, ACTIVE, 0, None, known).reason is None


def test_batch_task_keeps_its_share_only_during_its_attempt() -> None:
    task: dict[str, Any] = {"state": "running", "executionInfo": {"startTime": BEGAN}}
    known = replace(states.task_status(task, ACTIVE, 0, None), gpus="2-3", node_fraction=0.25)
    assert states.task_status(task, ACTIVE, 0, None, known) == known
    task["executionInfo"] = {"startTime": ENDED}
    assert states.task_status(task, ACTIVE, 0, None, known).gpus is None


DETAILS = [{"name": "Url", "value": "https://a/b"}]


@pytest.mark.parametrize(
    ("code", "failure", "reason"),
    [
        (3, {"category": "usererror", "code": "FailureExitCode", "message": "It exited"}, None),
        (
            None,
            {"category": "UserError", "code": "BlobNotFound", "message": "No", "details": DETAILS},
            "usererror BlobNotFound: No https://a/b",
        ),
    ],
    ids=["by its program", "before it could start"],
)
def test_batch_task_that_failed_has_an_exit_code_or_a_reason(
    code: int | None, failure: dict[str, Any], reason: str | None
) -> None:
    found = status("completed", exitCode=code, result="Failure", failureInfo=failure)
    assert (found.state, found.exit_code, found.reason) == ("failed", code, reason)


@pytest.mark.parametrize(("timeout", "expected"), [(5.0, True), (60.0, False), (None, False)])
def test_batch_task_with_exit_code_124_timed_out_only_after_its_timeout(
    timeout: float | None, expected: bool
) -> None:
    times = {"startTime": BEGAN, "endTime": ENDED}
    found = status("completed", ACTIVE, timeout, exitCode=124, result="failure", **times)
    assert found.timed_out is expected


BY_FAIRWAY, BY_ITSELF = states.CANCELLED, "AllTasksComplete"
ENDED_TASK, OWN_130 = {"failureInfo": {"code": "TaskEnded"}}, {"exitCode": 130}


@pytest.mark.parametrize(
    ("reason", "info", "state"),
    [
        (BY_FAIRWAY, ENDED_TASK, "cancelled"),
        (BY_FAIRWAY, OWN_130, "cancelled"),
        (BY_FAIRWAY, {"exitCode": 1}, "failed"),
        ("UserTerminate", ENDED_TASK, "cancelled"),
        ("we need the nodes", ENDED_TASK, "cancelled"),
        ("MaxWallClockTimeExpiry", ENDED_TASK, "failed"),
        ("JMComplete", ENDED_TASK, "failed"),
        (BY_ITSELF, ENDED_TASK, "failed"),
        (BY_ITSELF, OWN_130, "failed"),
    ],
)
def test_batch_task_is_cancelled_only_if_the_user_ended_its_job(
    reason: str, info: dict[str, Any], state: str
) -> None:
    job = {"state": "completed", "executionInfo": {"terminateReason": reason}}
    found = status("completed", job, result="failure", **info)
    assert found.state == state
    assert found.exit_code == (130 if state == "cancelled" else info.get("exitCode"))
