"""Operations on job schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.clock import parse_time
from fairway_simulator.batch.model.schedule import Schedule
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.wire.durations import seconds
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property
from fairway_simulator.batch.wire.query import page
from fairway_simulator.batch.wire.router import answer, done

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation


def _check(body: dict[str, Any]) -> None:
    times = body.get("schedule") or {}
    for name in ("doNotRunUntil", "doNotRunAfter"):
        if times.get(name):
            try:
                parse_time(times[name])
            except ValueError:
                raise invalid_property(name, times[name]) from None
    for name in ("startWindow", "recurrenceInterval"):
        if times.get(name) and seconds(times[name], name) < 60:
            raise invalid_property(name, times[name], "one minute or more")
    if body.get("jobSpecification"):
        checks.job(body["jobSpecification"])


def create(core: Core, request: Request) -> Response:
    """Add a job schedule."""
    body = request.json()
    checks.identifier(body)
    specification = checks.required(body, "jobSpecification")
    checks.required(body, "schedule")
    _check(body)
    with core.account.changed:
        core.account.pool(str((specification.get("poolInfo") or {}).get("poolId")))
        if body["id"].lower() in core.account.schedules:
            raise ServiceError(409, "JobScheduleExists")
        if body["id"].lower() in core.account.jobs:
            raise ServiceError(409, "JobWithSameIdExists")
        core.account.require_room()
        clock, number = core.clock, core.account.next_sequence()
        time = clock.time().timestamp()
        schedule = Schedule(body, core.account.url, number, clock.now(), time)
        core.account.schedules[schedule.key] = schedule
        core.account.changed.notify_all()
        return done(201, schedule, schedule.url)


def list_all(core: Core, request: Request) -> Response:
    """List the account's job schedules."""
    with core.account.changed:
        entries = [(known.sequence, known.wire) for known in core.account.schedules.values()]
        return answer(page(request, core.account.url, entries))


def disable(core: Core, _: Request, schedule_id: str) -> Response:
    """Let a schedule make no jobs for now."""
    return _switch(core, schedule_id, "disabled")


def enable(core: Core, _: Request, schedule_id: str) -> Response:
    """Let a disabled schedule make jobs again."""
    return _switch(core, schedule_id, "active")


def _switch(core: Core, schedule_id: str, state: str) -> Response:
    with core.account.changed:
        schedule = core.account.schedule(schedule_id)
        if schedule.state == "completed":
            raise ServiceError(409, "JobScheduleCompleted")
        if schedule.state != state:
            schedule.become(state, core.clock.now())
        core.account.changed.notify_all()
        return done(204, schedule, schedule.url)


def delete(core: Core, _: Request, schedule_id: str) -> Response:
    """Delete a schedule and its jobs."""
    with core.account.changed:
        schedule = core.account.schedule(schedule_id)
        core.schedules.end(schedule, delete=True)
        core.account.changed.notify_all()
        return done(202)


def list_jobs(core: Core, request: Request, schedule_id: str) -> Response:
    """List the jobs that a schedule has made."""
    with core.account.changed:
        made = core.schedules.jobs_of(core.account.schedule(schedule_id))
        return answer(page(request, core.account.url, [(job.sequence, job.wire) for job in made]))


OPERATIONS: list[Operation] = [
    ("POST", "/jobschedules", create),
    ("GET", "/jobschedules", list_all),
    ("DELETE", "/jobschedules/{jobScheduleId}", delete),
    ("POST", "/jobschedules/{jobScheduleId}/disable", disable),
    ("POST", "/jobschedules/{jobScheduleId}/enable", enable),
    ("GET", "/jobschedules/{jobScheduleId}/jobs", list_jobs),
]
