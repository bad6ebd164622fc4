"""Submissions of which the service refuses the job or some of its tasks."""

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from endings import refused as refused_finding
from pool import Files, refused
from running import MakeRun
from targets import target_of

from fairway_agent.spec import RunPlan
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.batch.submission import BatchSubmission, State, find_own_job
from fairway_runner.engines.outage import RunRefused, Unavailable

TASKS = [{"id": "0"}, {"id": "1"}]
NONE: Any = None
OWN = [{"name": client.RUN, "value": "job-a"}, {"name": client.CREATED, "value": "1000000000.0"}]
JOB = {"id": "job-a", "metadata": OWN}
OTHERS = {"id": "job-a", "metadata": OWN[:1]}


def sending(answer: Any) -> Any:
    """Returns a submission to an account that answers added tasks like this."""

    def add_tasks(_job: str, chunk: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return [{"taskId": task["id"], **answer} for task in chunk]

    calls = SimpleNamespace(deadline=0.0, stopped=SimpleNamespace(wait=lambda _: False))
    account: Any = SimpleNamespace(add_tasks=add_tasks, calls=calls)
    return BatchSubmission(NONE, account, NONE, NONE, NONE)


def test_batch_submission_names_a_task_that_is_too_large() -> None:
    with pytest.raises(ServiceError, match="task 0 is larger than Azure Batch accepts") as caught:
        sending(refused(413, "RequestBodyTooLarge"))._add_chunk("job", TASKS)
    assert (caught.value.status, caught.value.exit_code) == (413, 2)


def test_batch_submission_continues_with_its_own_job_and_is_unavailable_without_quota() -> None:
    """The job's tasks may be running: the run must not go to another target then."""
    assert to_a_full_account(dict(JOB))._create_job(JOB) is False
    with pytest.raises(Unavailable, match="QuotaReached"):
        to_a_full_account(None)._create_job(JOB)


def test_batch_submission_waits_until_a_job_of_its_id_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairway_runner.engines.outage._FIRST", 0.0)
    made: Any = to_a_full_account(None)
    deleted = refused(409, "JobBeingDeleted")
    made.account.create_job.side_effect = [deleted, deleted, None]
    assert made._create_job(JOB) is True
    made.account.create_job.side_effect, made.account.calls.deadline = deleted, 0.0
    with pytest.raises(ServiceError) as caught:
        made._create_job(JOB)
    assert caught.value.code == "JobBeingDeleted"


@pytest.mark.parametrize(
    ("code", "job"), [("JobExists", OTHERS), ("JobScheduleWithSameIdExists", None)]
)
def test_batch_submission_with_the_id_of_another_job_or_schedule_is_refused_and_uploads_nothing(
    code: str, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_runner.engines.batch.outputs.missing_inputs", lambda *_: {})
    monkeypatch.setattr(BatchSubmission, "job", lambda _: JOB)
    with pytest.raises(RunRefused) as caught:
        to_a_full_account(job, code).send()
    found = caught.value.findings[0]
    assert (found.id, "`job-a`" in found.message) == ("taken-run-id", True)


def test_batch_retry_with_the_id_of_another_job_names_the_way_to_the_next_id() -> None:
    again = to_a_full_account(OTHERS, "JobExists")
    again.state.submission = 1
    found = refused_finding(lambda: again._create_job(JOB))
    assert (found.id, "fairway cancel job-a" in found.hint) == ("taken-run-id", True)


@pytest.mark.parametrize(("job", "own"), [(JOB, True), (OTHERS, False), (None, False)])
def test_batch_cancel_and_remove_leave_the_job_and_the_files_of_another_run(
    job: Any, own: bool, make_run: MakeRun
) -> None:
    run = make_run("job-a", state="queued", engine="batch")
    (run.folder / "plan.json").write_text(RunPlan("job-a", "/x").text())
    engine: Any = BatchEngine(target_of("batch"))
    engine.account = Mock(find_job=lambda name: job if name == "job-a" else None)
    engine.account.running_tasks.return_value = ()
    engine.storage, engine.await_end, engine.refresh = Files(), Mock(), Mock()
    engine.storage.stored["job-a/record.tar.gz"] = b""
    engine.storage.delete = lambda _, names: [engine.storage.stored.pop(each) for each in names]
    engine.cancel(run)
    assert engine.await_end.mock_calls == ([call(run, 0.0)] if own else [])  # its grace is over
    assert run.state == ("queued" if own else "cancelled")
    engine.remove(run)
    orders = [each.args[2] for each in engine.account.order.call_args_list]
    ends = ["/jobs/job-a/disable", "/jobs/job-a/terminate", "/jobs/job-a"]
    assert (orders, bool(engine.storage.stored)) == (ends if own else [], job is OTHERS)


@pytest.mark.parametrize(
    ("job", "run_id", "created", "own"),
    [
        ("job-a", "job-a", 1e9, True),
        ("job-a", "job-a", 2e9, False),
        ("nightly:job-1", "nightly-1", 2e9, True),  # a schedule has created it
        ("nightly-1", "nightly-1", 2e9, False),
    ],
)
def test_batch_job_of_a_run_has_the_time_of_its_creation_or_is_named_by_its_schedule(
    job: str, run_id: str, created: float, own: bool
) -> None:
    run: Any = SimpleNamespace(id=run_id, record=SimpleNamespace(created=created))
    account: Any = SimpleNamespace(find_job={job: {"id": job, "metadata": OWN}}.get)
    assert (find_own_job(account, run, job) is not None) is own


def test_batch_submission_with_all_tasks_accepted_at_its_deadline_is_complete() -> None:
    made = sending({"status": "success"})
    made._add_chunk("job", TASKS)
    assert made.accepted == len(TASKS)


@pytest.mark.parametrize(
    ("status", "code", "text", "said"),
    [
        (
            *("clienterror", "InvalidPropertyValue", "no such pool"),
            "Azure Batch refuses task 0: InvalidPropertyValue: no such pool",
        ),
        (
            *("servererror", "ServerBusy", "later"),
            "Azure Batch could not take 2 tasks: ServerBusy: later",
        ),
    ],
)
def test_batch_submission_reports_tasks_that_were_not_accepted_and_the_reason(
    status: str, code: str, text: str, said: str
) -> None:
    error = {"code": code, "message": {"value": text}}
    with pytest.raises(ServiceError) as caught:
        sending({"status": status, "error": error})._add_chunk("job", TASKS)
    assert caught.value.findings[0].message == said


def test_batch_submission_failure_stops_its_own_threads_but_no_later_calls() -> None:
    """The event that stops the submission's other threads is not left set."""
    failed = sending(refused(400, "Bad"))
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


def to_a_full_account(
    job: dict[str, Any] | None, code: str = "ActiveJobAndScheduleQuotaReached"
) -> BatchSubmission:
    """Returns a submission to an account that refuses jobs with this code, and has this one."""
    create = Mock(side_effect=refused(409, code))
    account: Any = SimpleNamespace(create_job=create, calls=SimpleNamespace(deadline=600.0))
    account.find_job = account.job = lambda _: job
    run: Any = SimpleNamespace(id="job-a", record=SimpleNamespace(tasks=1, created=1e9))
    return BatchSubmission(run, account, NONE, State(0, jobs=("job-a",)), NONE)


@pytest.mark.parametrize("run", ["a", "digits-abcdef", "a" * 63])
def test_batch_job_ids_are_unique_and_at_most_64_characters(run: str) -> None:
    ids = {client.job_id(run, submission) for submission in range(12)}
    assert len(ids) == 12
    assert all(len(each) <= 64 for each in ids)
    assert client.job_id("a" * 62 + "b", 1) != client.job_id("a" * 62 + "c", 1)
