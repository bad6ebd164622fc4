"""Runs that come back: a job schedule of Batch's, whose jobs are runs of their own.

A schedule can start one task by itself (Batch calls it the job's manager), on one node, and
it starts the next job when the one before has ended.
"""

from __future__ import annotations

import re
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import names, outputs
from fairway_runner.engines.batch.request_builder import is_ending, with_hidden
from fairway_runner.engines.batch.submission import State, Submission, metadata_of
from fairway_runner.engines.schedules import Recurrence, Schedule
from fairway_runner.runs.folder import RunFolders
from fairway_runner.submit import snapshot as code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.engine import BatchEngine
    from fairway_runner.submit.prepare import PreparedRun


_MINUTE, _HOUR, _DAY, _WEEK = 60, 3_600, 86_400, 604_800
_ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def every(seconds: float) -> Recurrence:
    """Every `seconds` from now on; UserError below a minute, which is Batch's least.

    >>> every(21600).wire()
    {'recurrenceInterval': 'PT360M'}
    """
    if seconds < _MINUTE or seconds % _MINUTE:
        message = f"Azure Batch cannot repeat every {seconds:g} s"
        raise UserError.of("bad-schedule", message, "use whole minutes, at least one")
    return Recurrence(int(seconds))


def cron(line: str, now: datetime) -> Recurrence:
    """A line of cron; UserError where it is none, or no fixed interval.

    >>> from datetime import UTC
    >>> cron("30 2 * * *", datetime(2026, 3, 1, 12, tzinfo=UTC)).wire()
    {'recurrenceInterval': 'PT1440M', 'doNotRunUntil': '2026-03-02T02:30:00Z'}
    """
    fields = _ALIASES.get(line.strip(), line).split()
    if len(fields) != 5:
        raise _refused(line, "a line of cron has five fields: minute hour day month weekday")
    minute, hour, day, month, weekday = fields
    if (day, month) != ("*", "*"):
        raise _refused(line, "Batch repeats at a fixed interval, and months have no fixed length")
    start = now.replace(second=0, microsecond=0)
    if step := _step(minute, _HOUR // _MINUTE):
        if (hour, weekday) != ("*", "*"):
            raise _refused(line, "Batch cannot pause within a day")
        return Recurrence(step * _MINUTE, _next(start.replace(minute=0), step * _MINUTE, now))
    at = start.replace(minute=_number(line, minute, 59))
    if step := 1 if hour == "*" else _step(hour, 24):
        if weekday != "*":
            raise _refused(line, "Batch cannot pause within a week")
        return Recurrence(step * _HOUR, _next(at.replace(hour=0), step * _HOUR, now))
    at = at.replace(hour=_number(line, hour, 23))
    if weekday == "*":
        return Recurrence(_DAY, _next(at, _DAY, now))
    wanted = _DAYS.index(weekday.lower()) if weekday.lower() in _DAYS else None
    number = (_number(line, weekday, 7) if wanted is None else wanted) % 7
    sunday = at - timedelta(days=at.isoweekday() % 7)
    return Recurrence(_WEEK, _next(sunday + timedelta(days=number), _WEEK, now))


def _step(field: str, count: int) -> int | None:
    """The step of `*/N` and `*`, where equal steps fill the count."""
    found = re.fullmatch(r"\*(?:/(\d+))?", field)
    if found is None:
        return None
    step = int(found[1] or 1)
    return step if step and count % step == 0 else None


def _number(line: str, field: str, most: int) -> int:
    if not field.isdecimal() or int(field) > most:
        raise _refused(line, f"`{field}` does not repeat at a fixed interval")
    return int(field)


def _next(start: datetime, interval: int, now: datetime) -> datetime:
    missed = max(0.0, (now - start).total_seconds())
    return start + timedelta(seconds=interval * -(-missed // interval))


def _refused(line: str, why: str) -> UserError:
    hint = "write it so that it repeats every N minutes or hours, every day or every week, "
    hint += "or give --every 6h"
    return UserError.of("bad-schedule", f"`{line}`: {why}", hint)


# What a job's manager task may have of an ordinary task's properties.
_OF_A_MANAGER = (
    *("id", "commandLine", "environmentSettings", "constraints", "userIdentity"),
    *("containerSettings", "requiredSlots"),
)
_OF_A_JOB = (
    *("displayName", "priority", "poolInfo", "jobPreparationTask", "jobReleaseTask", "metadata"),
    "commonEnvironmentSettings",
)


class BatchSchedules:
    """The job schedules of a target's pool; see `engines.schedules.Schedules`."""

    def __init__(self, engine: BatchEngine) -> None:
        self._engine = engine

    def every(self, seconds: float) -> Recurrence:
        """Whole minutes."""
        return every(seconds)

    def cron(self, line: str, now: datetime) -> Recurrence:
        """A line that means a fixed interval."""
        return cron(line, now)

    def create(self, prepared: PreparedRun, recurrence: Recurrence) -> str:
        """Sends code and key of the run, and makes a job schedule."""
        engine = self._engine
        _require_one_task(prepared)
        with tempfile.TemporaryDirectory() as folder:
            store = RunFolders(Path(folder))
            snapshot = code.snapshot(prepared.code, store.base / "code")
            run, _ = store.create(prepared.record, prepared.all_files())
            state = State(names.job_id(run.id), 0)
            submission = Submission(run, engine.account, engine.storage, state)
            payload = submission.pack(snapshot)
            submission.upload(payload, snapshot)
            task = next(iter(payload.tasks))
        spec = _spec(run.id, payload.job, task, recurrence)
        client = engine.account.client
        try:
            engine.account.calls.call("a new schedule", lambda: client.create_job_schedule(spec))  # type: ignore[arg-type]
        except ServiceError as error:
            kinds = {"JobScheduleExists": "schedule", "JobWithSameIdExists": "job"}
            if error.code not in kinds:
                raise
            message = f"the account already has a {kinds[error.code]} `{run.id}`"
            raise UserError.of("taken-run-id", message, "choose another with --name") from None
        return run.id

    def all(self) -> list[Schedule]:
        """Lists the schedules whose jobs are for the target's pool."""
        account = self._engine.account
        found = []
        for each in account.calls.pages("schedules", account.client.list_job_schedules()):
            pool = (each["jobSpecification"].get("poolInfo") or {}).get("poolId")
            if names.SCHEDULE not in metadata_of(each) or pool != account.pool:
                continue
            info = each.get("executionInfo") or {}
            last = str((info.get("recentJob") or {}).get("id") or "")
            found.append(
                Schedule(
                    name=str(each["id"]),
                    state=str(each["state"]).lower(),
                    interval=str((each.get("schedule") or {}).get("recurrenceInterval") or ""),
                    next_run=str(info.get("nextRunTime") or ""),
                    last_run=names.scheduled_run(last) if last else "",
                )
            )
        return sorted(found, key=lambda schedule: schedule.name)

    def act(self, action: str, name: str) -> None:
        """`delete` removes key, record and copied inputs too, but no outputs of its runs."""
        engine, path = self._engine, f"/jobschedules/{name}"
        try:
            if action == "delete":
                engine.account.order("to delete it", "DELETE", path)
            else:
                engine.account.order(f"to {action} it", "POST", f"{path}/{action}")
        except ServiceError as error:
            if not error.is_missing:
                raise
            hint = f"its schedules: fairway schedule list --target {engine.target.name}"
            message = f"`{engine.target.name}` has no schedule `{name}`"
            raise UserError.of("unknown-schedule", message, hint) from None
        if action == "delete":
            outputs.delete_stored(name, engine.storage)


SCHEDULES = BatchSchedules


def _require_one_task(prepared: PreparedRun) -> None:
    job = prepared.job
    for wrong, what in (
        (prepared.plan.tasks > 1 + (job.finally_ is not None), "a sweep"),
        (job.nodes > 1, f"{job.nodes} nodes"),
        # Batch lets nothing run beside such a task (`runExclusive`).
        (job.wanted is not None, "a part of one"),
        (job.finally_ is not None, "a `finally:`"),
    ):
        if wrong:
            message = f"a schedule of Azure Batch starts one task on one node, not {what}"
            hint = "run `fairway submit` from a scheduler of your own, such as a pipeline"
            raise UserError.of("not-supported", message, hint)


def _spec(
    name: str, job: Mapping[str, Any], task: Mapping[str, Any], recurrence: Recurrence
) -> dict[str, Any]:
    specification = {key: job[key] for key in _OF_A_JOB}
    specification["metadata"] = [*job["metadata"], {"name": names.SCHEDULE, "value": name}]
    specification["commonEnvironmentSettings"] = [
        *job["commonEnvironmentSettings"],
        {"name": "FAIRWAY_SCHEDULE", "value": name},
    ]
    manager = {key: task[key] for key in _OF_A_MANAGER if key in task}
    # The task itself lays what is kept below `kept/<its run>/`: each of its runs has another.
    destination = {**task["outputFiles"][0]["destination"]["container"]}
    destination.pop("path")
    manager["outputFiles"] = [
        {
            "filePattern": pattern,
            "destination": {"container": destination},
            "uploadOptions": {"uploadCondition": "taskcompletion"},
        }
        for pattern in with_hidden("kept/**/*")
    ]
    manager["outputFiles"] += [each for each in task["outputFiles"] if is_ending(each)]
    specification["jobManagerTask"] = {**manager, "killJobOnCompletion": True}
    return {
        "id": name,
        "displayName": job["displayName"],
        "schedule": recurrence.wire(),
        "jobSpecification": specification,
        "metadata": specification["metadata"],
    }
