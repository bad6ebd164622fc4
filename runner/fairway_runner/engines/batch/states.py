"""States of a job and its tasks in Batch, and how these are ended early."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from fairway_agent import state_files
from fairway_agent.batch.notifications import FILE, ExitReport
from fairway_agent.reconcile import JobView, resolve
from fairway_agent.records import InvalidRecord
from fairway_agent.resources import SHARE_FILE, Allocation, ranges
from fairway_agent.spec import WARN
from fairway_agent.state_files import IO_ERROR, TIMED_OUT, ExceededLimit, TaskState, end_state
from fairway_boot.files import read_json
from fairway_runner.engines.azure_calls import ServiceError, ignore_missing
from fairway_runner.engines.azure_storage import OUTPUTS, Storage
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.client import CONCURRENCY, Account, Facts, state_of
from fairway_runner.engines.batch.request_builder import needs_exit_reports
from fairway_runner.runs.records import known_state, read_plan

if TYPE_CHECKING:
    from fairway_runner.engines.batch.task_files import TaskFiles

    Report = TypeVar("Report")


CANCELLED = "cancelled by fairway"
"""Termination reason of jobs that `fairway cancel` ends."""

UNPREPARED = "no node could be prepared"
"""Termination reason of a job that no node of its pool could be prepared for."""

DISABLED = "its job is disabled"
"""Beginning of a run's reason if somebody has disabled its job."""

PREPARING = "its node is being prepared for the job"
"""Reason of a task that waits for the job preparation on its node."""

SELECT = ("id", "state", "executionInfo", "nodeInfo")
"""Properties of a task to query."""


def seconds(text: object) -> float | None:
    """Converts a time of the service's to seconds since 1970; None for none."""
    if isinstance(text, datetime):
        return text.timestamp()
    if not isinstance(text, str) or not text:
        return None
    return datetime.fromisoformat(text).timestamp()


def terminate_reason(job: Facts) -> str:
    """Returns the reason why a job has ended; "" if it has not."""
    return str((job.get("executionInfo") or {}).get("terminateReason") or "")


# Any other reason was given by a person. Source: BatchJobExecutionInfo.termination_reason of
# azure-batch.
_OF_SERVICE = ("AllTasksComplete", "TaskFailed", "MaxWallClockTimeExpiry", "JMComplete", UNPREPARED)


def ended_by_person(job: Facts) -> str:
    """Returns the reason with which a person, with Fairway or otherwise, has ended a job, or ""."""
    reason = terminate_reason(job)
    return "" if reason in _OF_SERVICE else reason


def why_disabled(job: Facts) -> str:
    """Returns why no more tasks of a disabled job start; "" if it is not disabled. Batch does not
    mention it in the states of tasks and nodes."""
    if state_of(job) not in ("disabling", "disabled"):
        return ""
    go_on = f"az batch job enable --job-id {job['id']}"
    return f"{DISABLED}, or being cancelled: {go_on} lets the rest of its tasks begin"


def task_status(
    task: Facts,
    job: Facts,
    first: int,
    timeout: float | None,
    before: TaskState | None = None,
    *,
    cancelled: bool = False,
) -> TaskState:
    """Returns the state of a task; `first` is the number of the first attempt of this job, and
    `before` the state known until now, which stays if it is final; `cancelled` says that the task
    itself was cancelled.

    In addition to every engine's fields it has `node`, `requeues` (how often the task lost its node
    and was restarted elsewhere), and possibly a `reason`. Azure counts only requested requeues; any
    other is recognised by a start that is later than the known one.
    """
    info = task.get("executionInfo") or {}
    state = state_of(task)
    retries, started = int(info.get("retryCount") or 0), seconds(info.get("startTime"))
    known = before.attempts - 1 if before else -1
    known_start = before.started if before else None
    attempt = first + retries + int(info.get("requeueCount") or 0)
    if state not in ("running", "completed") or (state == "completed" and started is None):
        attempt = max(known, attempt - 1 if not started or attempt > first else attempt)
        started = started or known_start
    elif started is not None and known_start is not None and started != known_start:
        attempt = max(known + 1, attempt)
    else:
        attempt = max(known, attempt)
    begun = attempt if state in ("running", "completed") else attempt + 1
    status = TaskState(
        "running" if state in ("running", "completed") else "queued",
        attempt=attempt,
        started=started,
        node=str((task.get("nodeInfo") or {}).get("nodeId") or "") or None,
        requeues=max(0, begun - first - retries),
        begins=before.begins if before else None,
    )
    if before is not None and before.started == started:
        status = replace(
            status, gpus=before.gpus, cores=before.cores, node_fraction=before.node_fraction
        )
    view = _view(task, job, timeout, requeued=bool(status.requeues))
    by_person = cancelled or bool(ended_by_person(job))
    is_cancelled = by_person and view.state == "failed" and is_ended_early(info)
    if before is not None and before.is_final and before.ended == view.ended:
        is_known = before.state == "cancelled" or not is_cancelled
        status = before if is_known else status
    return resolve(status, view, cancelled=is_cancelled, now=time.time())


def _view(task: Facts, job: Facts, timeout: float | None, *, requeued: bool) -> JobView:
    info, state = task.get("executionInfo") or {}, state_of(task)
    if state == "running":
        return JobView("running")
    if state != "completed":
        if state_of(job) == "completed":
            return JobView("cancelled", exit_code=None, ended=end_of(job) or 0.0)
        if state == "preparing":
            return JobView("queued", PREPARING)
        moved = "its node was taken away; it starts again on another"
        return JobView("queued", moved if requeued else "waiting for nodes")
    view = JobView(
        "succeeded", exit_code=info.get("exitCode"), ended=seconds(info.get("endTime")) or 0.0
    )
    if str(info.get("result") or "").lower() == "success":
        return view
    failure, reason = info.get("failureInfo") or {}, ""
    code = str(failure.get("code") or "")
    if code and code.lower() != "failureexitcode":
        reason = f"{str(failure.get('category') or '').lower()} {code}: {failure_text(failure)}"
    started, timed_out = seconds(info.get("startTime")), False
    if view.exit_code == TIMED_OUT and timeout is not None and started and view.ended:
        timed_out = view.ended - started >= timeout
    return replace(view, state="failed", reason=reason, timed_out=timed_out)


def is_ended_early(info: Facts) -> bool:
    """Returns True if a task looks as if it was ended on request."""
    code = str((info.get("failureInfo") or {}).get("code") or "")
    by_request = code.lower() in ("taskended", "taskterminated")
    return by_request or info.get("exitCode") == state_files.CANCELLED


def count_up(status: TaskState, attempt: int) -> TaskState:
    """Returns the status as that of a later attempt, if more have begun than were seen."""
    missed = attempt + 1 - status.attempts
    if missed <= 0:
        return status
    return replace(status, attempt=attempt, requeues=(status.requeues or 0) + missed)


def failure_text(failure: Facts) -> str:
    """Formats a task's `failureInfo`, with its values."""
    details = [str(each.get("value")) for each in failure.get("details") or ()]
    return " ".join([str(failure.get("message") or ""), *details]).strip()


def end_of(job: Facts) -> float | None:
    """Returns when a job ended; None if it has not."""
    return seconds((job.get("executionInfo") or {}).get("endTime"))


def run_state(states: Mapping[str, int], *, ended: bool) -> str:
    """Returns a run's state, given how many of its tasks are in which."""
    if not ended:
        begun = states.get("running", 0) + states.get("succeeded", 0) + states.get("failed", 0)
        return "running" if begun else "queued"
    return end_state(states)


def add_shares(files: TaskFiles, found: dict[int, TaskState]) -> None:
    """Adds the GPUs and cores of tasks that have begun, unless they are known already."""
    job = read_json(files.run.folder / "job.json")
    if job.get("gpus") is None and job.get("cores") is None:
        return
    new = {
        number: status
        for number, status in found.items()
        if status.started and status.state != "queued" and status.node_fraction is None
    }
    for number, allocation in _read(
        files, f"wd/logs/{SHARE_FILE}", new, Allocation.from_json
    ).items():
        status = found[number]
        # The file of an earlier attempt may still lie in the same folder.
        if allocation.attempt >= status.attempts - 1:
            gpus, cores = ranges(allocation.gpus), ranges(allocation.cores)
            found[number] = replace(
                status, gpus=gpus, cores=cores, node_fraction=allocation.node_fraction
            )


def add_exit_reports(
    files: TaskFiles, submission: int, found: dict[int, TaskState]
) -> ExceededLimit | None:
    """Completes the states of ended tasks; returns the limit that the run has exceeded, if any."""
    run = files.run
    plan = read_plan(run.folder)
    reported = needs_exit_reports(plan)
    warns = plan.idle_gpu is not None and plan.idle_gpu.then == WARN
    new = {
        number: status
        for number, status in found.items()
        # A task whose outputs were not kept reports which, as long as its node exists.
        if (reported or status.exit_code == IO_ERROR)
        and (
            status.exit_code is not None if status.is_final else warns and status.state == "running"
        )
    }
    folder = client.exit_reports_folder(run.id, submission)
    over = None
    for number, report in _read(
        files, f"wd/logs/{FILE}", new, ExitReport.from_json, folder
    ).items():
        if (report.job, report.task) != (files.job_id, run.task_name(number)):
            continue
        if (status := completed_state(found[number], report)) is found[number]:
            continue
        found[number] = status
        if report.limit is not None and status.is_final:
            over = over or ExceededLimit(report.limit, report.why or report.limit)
    state = known_state(run.folder)
    if over is None and state.limit is not None:  # found earlier
        return ExceededLimit(state.limit, state.reason or state.limit)
    return over


def completed_state(status: TaskState, report: ExitReport) -> TaskState:
    """Returns Batch's state completed by the task's own report, unless their exit codes differ."""
    own = report.state
    if own.state == status.state == "running" and own.attempt == status.attempt:
        return replace(status, reason=own.reason)
    if own.exit_code != status.exit_code or not own.is_final:
        return status
    attempt = status.attempt if own.attempt is None else own.attempt
    names = ("state", "exit_code", "held", "failures_by_cause", "timed_out")
    facts = {name: getattr(own, name) for name in names}
    return replace(status, **facts, attempt=attempt, reason=own.reason or status.reason)


def _read(
    files: TaskFiles,
    name: str,
    tasks: Mapping[int, TaskState],
    from_json: Callable[[object], Report],
    stored: str = "",
) -> dict[int, Report]:
    """Returns the reports in a file of these tasks, by number; `stored` is the folder in storage
    with those of ended tasks. Whatever our own program did not write is ignored."""

    def read(number: int) -> Report | None:
        blob = f"{stored}{files.run.task_name(number)}/{FILE}" if stored else ""
        data = files.read(number, name, ended=tasks[number].is_final, blob=blob)
        try:
            return from_json(json.loads(data or b""))
        except (ValueError, RecursionError, InvalidRecord):
            return None

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        found = zip(tasks, pool.map(read, tasks), strict=True)
        return {number: report for number, report in found if report is not None}


# Batch kills the tasks that it terminates. So running tasks are asked to stop first, through the
# only channel that the service has: each has this file in its folder, and stops when it is removed.
_FILE = "wd/fairway.running"
_PAUSE = 0.3
_MARGIN = 15.0  # seconds beyond the grace, for the request and the outputs

# Batch's error codes if somebody has already ended the job, or disabled it.
_ENDED = frozenset({"JobBeingTerminated", "JobCompleted", "JobBeingDeleted"})
_DISABLED = frozenset({"JobDisabled", "OperationInvalidForCurrentState"})


def end_early(account: Account, job_id: str, grace: float) -> bool:
    """Ends the job; returns False if there is none. It is being terminated when this returns."""
    try:
        try:
            # Running tasks continue.
            account.order("no more tasks", "POST", f"/jobs/{job_id}/disable", disableTasks="wait")
        except ServiceError as error:
            if error.code not in _DISABLED:
                raise
        _end_tasks(account, job_id, grace)
        terminate(account, job_id, CANCELLED)
    except ServiceError as error:
        if error.code == client.NO_JOB:
            return False
        if error.code not in _ENDED:
            raise
    return True


def terminate(account: Account, job_id: str, reason: str) -> None:
    """Starts the termination of a job, and does not wait for it."""
    account.order("the end of a job", "POST", f"/jobs/{job_id}/terminate", terminateReason=reason)


def end_task(account: Account, job_id: str, task: str, grace: float) -> None:
    """Ends one task of a job: a running one is asked first; one that waits, restarts, or outlasts
    its grace is terminated. One that has ended stays as it is."""
    end, begun = time.monotonic() + grace + _MARGIN, None
    path = f"/jobs/{job_id}/tasks/{task}"
    with ignore_missing("TaskCompleted"):
        limits = {**(account.task(job_id, task).get("constraints") or {}), "maxTaskRetryCount": 0}
        kept = {name: value for name, value in limits.items() if value is not None}
        account.order("no more attempts", "PUT", path, constraints=kept)
        while True:
            found = account.task(job_id, task)
            state, start = state_of(found), _attempt_of(found)
            if state == "completed":
                return
            is_asked = begun is not None and begun == start
            if state != "running" or (begun is not None and not is_asked) or time.monotonic() > end:
                break
            if not is_asked and _ask(account, job_id, task):
                begun = start
            time.sleep(_PAUSE)
        account.order("the end of a task", "POST", f"{path}/terminate")


def _attempt_of(task: Facts) -> tuple[object, ...]:
    """Returns what tells an attempt of a job's task from all others."""
    info = task.get("executionInfo") or {}
    names = ("startTime", "retryCount", "requeueCount")
    return (str(task["id"]), *(info.get(name) for name in names))


def _ask(account: Account, job_id: str, task: str) -> bool:
    """Asks a running task to end; returns True if it could be asked."""
    try:
        account.delete_task_file(job_id, task, _FILE)
    except ServiceError as error:
        if error.is_missing or error.exists_already:  # it has not begun, or its node is gone
            return False
        raise
    return True


def _end_tasks(account: Account, job_id: str, grace: float) -> None:
    """Asks the running tasks, even those that are just starting, and waits until they have ended or
    their grace is over. It uses the list: Batch's counts may lag (see Get Task Counts)."""
    asked: set[tuple[object, ...]] = set()

    def ask(attempt: tuple[object, ...]) -> None:
        if _ask(account, job_id, str(attempt[0])):
            asked.add(attempt)

    end = time.monotonic() + grace + _MARGIN
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        while running := account.running_tasks(job_id):
            list(pool.map(ask, set(map(_attempt_of, running)) - asked))
            if time.monotonic() >= end:
                return
            time.sleep(_PAUSE)


def note_cancelled(run: str, submission: int, task: str, storage: Storage) -> None:
    """Records in storage that a task was cancelled, which Batch itself does not report."""
    storage.upload(OUTPUTS, f"{client.cancelled_folder(run, submission)}{task}", b"")


def cancelled_alone(run: str, submission: int, storage: Storage) -> Callable[[Facts], bool]:
    """Returns a function that tells if a task of this submission was cancelled by itself. It reads
    the records once, and only if needed."""
    folder = client.cancelled_folder(run, submission)

    @cache
    def noted() -> frozenset[str]:
        return frozenset(blob.name.removeprefix(folder) for blob in storage.blobs(OUTPUTS, folder))

    def is_cancelled(task: Facts) -> bool:
        return is_ended_early(task.get("executionInfo") or {}) and str(task["id"]) in noted()

    return is_cancelled
