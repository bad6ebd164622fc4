"""Operations on jobs and job schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.entity import parse_time
from fairway_simulator.batch.model.job import Job, Schedule, Task
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.wire.bodies import ServiceError, invalid_property, seconds
from fairway_simulator.batch.wire.router import answer, done, entity_answer, page

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.router import Operation
    from fairway_simulator.http import Answer, Request


def create(core: Core, request: Request) -> Answer:
    checks.identifier(request.document)
    job = add(core, request.document)
    return done(201, job, job.url)


def add(core: Core, spec: dict[str, Any]) -> Job:
    """Adds a job from a specification; the caller holds the lock."""
    checks.job(spec)
    if known := core.account.jobs.get(spec["id"].lower()):
        raise ServiceError(409, "JobBeingDeleted" if known.state == "deleting" else "JobExists")
    # This code and the one of the quota are in the service's list of error codes.
    if spec["id"].lower() in core.account.schedules:
        raise ServiceError(409, "JobScheduleWithSameIdExists")
    core.account.require_room()
    pool_info = checks.required(spec, "poolInfo")
    if not pool_info.get("poolId"):
        raise invalid_property("poolInfo", pool_info, "the simulator has no auto pools")
    core.account.pool(str(pool_info["poolId"]))
    now = core.clock.now()
    job = Job(spec, core.account.url, core.account.next_sequence(), now)
    core.account.jobs[job.key] = job
    if manager := spec.get("jobManagerTask"):
        job.add(Task(job, dict(manager), core.account.next_sequence(), now))
    core.jobs.check_complete(job)
    return job


def list_all(core: Core, request: Request) -> Answer:
    return page(core, request, [(job.sequence, job.wire) for job in core.account.jobs.values()])


def get(core: Core, request: Request, job_id: str) -> Answer:
    job = core.account.job(job_id)
    return entity_answer(request, job, job.wire())


def update(core: Core, request: Request, job_id: str) -> Answer:
    """Change what happens to a job when all its tasks have completed."""
    checks.job(request.document)
    checks.absent(request.document, *(request.document.keys() - {"onAllTasksComplete"}))
    job = core.account.open_job(job_id)
    job.spec |= request.document
    job.touch(core.clock.now())
    core.jobs.check_complete(job)
    return done(200, job, job.url)


def delete(core: Core, _: Request, job_id: str) -> Answer:
    core.jobs.delete(core.account.job(job_id))
    return done(202)


def terminate(core: Core, request: Request, job_id: str) -> Answer:
    job = core.account.job(job_id)
    core.jobs.terminate(job, str(request.document.get("terminateReason") or "UserTerminate"))
    return done(202, job, job.url)


def disable(core: Core, request: Request, job_id: str) -> Answer:
    """Disable a job; its running tasks continue."""
    if checks.required(request.document, "disableTasks").lower() != "wait":
        checks.absent(request.document, "disableTasks")
    job = core.account.job(job_id)
    core.jobs.disable(job)
    return done(202, job, job.url)


def counts(core: Core, _: Request, job_id: str) -> Answer:
    """Count a job's tasks by state, with a delay."""
    tasks, slots = core.account.job(job_id).told_counts()
    return answer({"taskCounts": tasks, "taskSlotCounts": slots})


def preparation(core: Core, request: Request, job_id: str) -> Answer:
    job = core.account.job(job_id)
    if not job.spec.get("jobPreparationTask"):
        raise ServiceError(409, "JobPreparationTaskNotSpecified")
    return page(core, request, enumerate((known.wire for known in job.prepared.values()), start=1))


def create_schedule(core: Core, request: Request) -> Answer:
    body = request.document
    checks.identifier(body)
    specification = checks.required(body, "jobSpecification")
    _check_times(checks.required(body, "schedule"))
    checks.job(specification)
    core.account.pool(str((specification.get("poolInfo") or {}).get("poolId")))
    if body["id"].lower() in core.account.schedules:
        raise ServiceError(409, "JobScheduleExists")
    if body["id"].lower() in core.account.jobs:
        raise ServiceError(409, "JobWithSameIdExists")
    core.account.require_room()
    number, time = core.account.next_sequence(), core.clock.time().timestamp()
    schedule = Schedule(body, core.account.url, number, core.clock.now(), time)
    core.account.schedules[schedule.key] = schedule
    return done(201, schedule, schedule.url)


def _check_times(times: dict[str, Any]) -> None:
    checks.absent(times, "doNotRunAfter", "startWindow")
    if until := times.get("doNotRunUntil"):
        try:
            parse_time(until)
        except ValueError:
            raise invalid_property("doNotRunUntil", until) from None
    interval = times.get("recurrenceInterval")
    if interval and seconds(interval, "recurrenceInterval") < 60:
        raise invalid_property("recurrenceInterval", interval, "one minute or more")


def list_schedules(core: Core, request: Request) -> Answer:
    known = core.account.schedules.values()
    return page(core, request, [(each.sequence, each.wire) for each in known])


def disable_schedule(core: Core, _: Request, schedule_id: str) -> Answer:
    return _switch(core, schedule_id, "disabled")


def enable_schedule(core: Core, _: Request, schedule_id: str) -> Answer:
    return _switch(core, schedule_id, "active")


def _switch(core: Core, schedule_id: str, state: str) -> Answer:
    schedule = core.account.schedule(schedule_id)
    if schedule.state != state:
        schedule.become(state, core.clock.now())
    return done(204, schedule, schedule.url)


def delete_schedule(core: Core, _: Request, schedule_id: str) -> Answer:
    core.schedules.delete(core.account.schedule(schedule_id))
    return done(202)


OPERATIONS: list[Operation] = [
    ("POST", "/jobs", create),
    ("GET", "/jobs", list_all),
    ("GET", "/jobs/{jobId}", get),
    ("PATCH", "/jobs/{jobId}", update),
    ("DELETE", "/jobs/{jobId}", delete),
    ("POST", "/jobs/{jobId}/terminate", terminate),
    ("POST", "/jobs/{jobId}/disable", disable),
    ("GET", "/jobs/{jobId}/taskcounts", counts),
    ("GET", "/jobs/{jobId}/jobpreparationandreleasetaskstatus", preparation),
    ("POST", "/jobschedules", create_schedule),
    ("GET", "/jobschedules", list_schedules),
    ("DELETE", "/jobschedules/{jobScheduleId}", delete_schedule),
    ("POST", "/jobschedules/{jobScheduleId}/disable", disable_schedule),
    ("POST", "/jobschedules/{jobScheduleId}/enable", enable_schedule),
]
