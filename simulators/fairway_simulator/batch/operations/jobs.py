"""Operations on jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.job import Job, Task
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.scheduler import job_deadline
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property
from fairway_simulator.batch.wire.query import page, select
from fairway_simulator.batch.wire.router import answer, done, entity_answer

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation


def create(core: Core, request: Request) -> Response:
    """Add a job."""
    body = request.json()
    checks.identifier(body)
    with core.account.changed:
        job = add(core, body)
        core.account.changed.notify_all()
        return done(201, job, job.url)


def add(core: Core, spec: dict[str, Any]) -> Job:
    """Makes a job of a specification; the caller holds the lock."""
    checks.job(spec)
    if known := core.account.jobs.get(spec["id"].lower()):
        raise ServiceError(409, "JobBeingDeleted" if known.state == "deleting" else "JobExists")
    # These two are of the service's list of error codes.
    if spec["id"].lower() in core.account.schedules:
        raise ServiceError(409, "JobScheduleWithSameIdExists")
    core.account.require_room()
    pool_info = checks.required(spec, "poolInfo")
    if not pool_info.get("poolId"):
        raise invalid_property("poolInfo", pool_info, "the simulator has no auto pools")
    pool = core.account.pools.get(str(pool_info["poolId"]).lower())
    if pool is None:
        raise ServiceError(404, "PoolNotFound")
    if pool.state == "deleting":
        raise ServiceError(409, "PoolBeingDeleted")
    now = core.clock.now()
    job = Job(spec, core.account.url, core.account.next_sequence(), now)
    job.deadline = job_deadline(job, core.clock.time().timestamp())
    core.account.jobs[job.key] = job
    if manager := spec.get("jobManagerTask"):
        job.add(Task(job, dict(manager), core.account.next_sequence(), now))
    core.jobs.check_complete(job)
    return job


def list_all(core: Core, request: Request) -> Response:
    """List the account's jobs."""
    with core.account.changed:
        jobs = [(job.sequence, job.wire) for job in core.account.jobs.values()]
        return answer(page(request, core.account.url, jobs))


def get(core: Core, request: Request, job_id: str) -> Response:
    """Get a job."""
    with core.account.changed:
        job = core.account.job(job_id)
        return entity_answer(job, select(request.query)(job.wire()))


_CHANGEABLE = {
    "priority",
    "allowTaskPreemption",
    "maxParallelTasks",
    "constraints",
    "poolInfo",
    "onAllTasksComplete",
    "metadata",
    "networkConfiguration",
}


def update(core: Core, request: Request, job_id: str) -> Response:
    """Change the properties that are given."""
    body = request.json()
    changes = {name: body[name] for name in _CHANGEABLE & body.keys() if body[name] is not None}
    checks.job(changes)
    with core.account.changed:
        job = core.account.open_job(job_id)
        if "poolInfo" in changes and job.state != "disabled":
            same = changes["poolInfo"].get("poolId") == job.pool_id
            if not same:
                raise ServiceError(409, "OperationInvalidForCurrentState")
        if "constraints" in changes:
            given = changes["constraints"] or {}
            changes["constraints"] = {**job.spec["constraints"], **given}
        job.spec |= changes
        job.info["poolId"] = job.pool_id
        if "constraints" in changes:
            from fairway_simulator.batch.clock import parse_time

            job.deadline = job_deadline(job, parse_time(job.created).timestamp())
        job.touch(core.clock.now())
        core.jobs.check_complete(job)
        core.account.changed.notify_all()
        return done(200, job, job.url)


def delete(core: Core, _: Request, job_id: str) -> Response:
    """Delete a job."""
    with core.account.changed:
        job = core.account.job(job_id)
        core.jobs.delete(job)
        core.account.changed.notify_all()
    return done(202)


def terminate(core: Core, request: Request, job_id: str) -> Response:
    """Terminate a job."""
    body = request.json() if request.body else {}
    with core.account.changed:
        job = core.account.job(job_id)
        core.jobs.terminate(job, str(body.get("terminateReason") or "UserTerminate"))
        core.account.changed.notify_all()
        return done(202, job, job.url)


def disable(core: Core, request: Request, job_id: str) -> Response:
    """Disable a job."""
    body = request.json()
    checks.required(body, "disableTasks")
    checks.one_of(body, "disableTasks", ("requeue", "terminate", "wait"))
    with core.account.changed:
        job = core.account.job(job_id)
        core.jobs.disable(job, body["disableTasks"].lower())
        core.account.changed.notify_all()
        return done(202, job, job.url)


def counts(core: Core, _: Request, job_id: str) -> Response:
    """Count a job's tasks by state, a little late."""
    with core.account.changed:
        job = core.account.job(job_id)
        tasks, slots = job.told_counts()
        return answer({"taskCounts": tasks, "taskSlotCounts": slots})


def preparation(core: Core, request: Request, job_id: str) -> Response:
    """List what the job's preparation and release tasks did on each node."""
    with core.account.changed:
        job = core.account.job(job_id)
        if not job.spec.get("jobPreparationTask"):
            raise ServiceError(409, "JobPreparationTaskNotSpecified")
        entries = list(enumerate((known.wire for known in job.prepared.values()), start=1))
        return answer(page(request, core.account.url, entries))


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
]
