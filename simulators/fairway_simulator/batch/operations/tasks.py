"""Operations on tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.clock import http_date
from fairway_simulator.batch.model.job import Task
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.jobs import BY_USER
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property
from fairway_simulator.batch.wire.query import page, select
from fairway_simulator.batch.wire.router import answer, done, entity_answer

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.job import Job
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation

_LARGEST = 1 << 20
_MOST = 100


def create(core: Core, request: Request, job_id: str) -> Response:
    """Add one task."""
    body = _body(request)
    with core.account.changed:
        task = _add(core, core.account.open_job(job_id), body)
        core.account.changed.notify_all()
        return done(201, task, task.url)


def create_collection(core: Core, request: Request, job_id: str) -> Response:
    """Add up to 100 tasks; each has an answer of its own."""
    specs = _body(request).get("value")
    if not isinstance(specs, list):
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="value")
    if len(specs) > _MOST:
        raise invalid_property("value", len(specs), f"at most {_MOST} tasks")
    with core.account.changed:
        job = core.account.open_job(job_id)
        results = [_try_add(core, request, job, spec) for spec in specs]
        core.account.changed.notify_all()
    return answer({"value": results})


def _body(request: Request) -> dict[str, Any]:
    if len(request.body) > _LARGEST:
        raise ServiceError(413, "RequestBodyTooLarge", MaxLimit=_LARGEST)
    return request.json()


def _try_add(core: Core, request: Request, job: Job, spec: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"taskId": spec.get("id")}
    try:
        core.faults.before_task(request)
        task = _add(core, job, spec)
    except ServiceError as error:
        status = "clienterror" if error.status < 500 else "servererror"
        return result | {"status": status, "error": error.wire()}
    return result | {
        "status": "success",
        "eTag": task.etag,
        "lastModified": task.last_modified,
        "location": task.url,
    }


def _add(core: Core, job: Job, spec: dict[str, Any]) -> Task:
    checks.task(spec, job.spec)
    if str(spec["id"]).lower() in job.tasks:
        raise ServiceError(409, "TaskExists")
    _require_other_id(job, str(spec["id"]))
    task = Task(job, spec, core.account.next_sequence(), core.clock.now())
    job.add(task)
    return task


def _require_other_id(job: Job, task_id: str) -> None:
    """See the descriptions of BatchJobPreparationTask.id and BatchJobReleaseTask.id in
    azure-batch."""
    for name, default, code in (
        ("jobPreparationTask", "jobpreparation", "TaskIdSameAsJobPreparationTask"),
        ("jobReleaseTask", "jobrelease", "TaskIdSameAsJobReleaseTask"),
    ):
        spec = job.spec.get(name)
        if spec and str(spec.get("id") or default).lower() == task_id.lower():
            raise ServiceError(409, code)


def list_all(core: Core, request: Request, job_id: str) -> Response:
    """List the tasks of a job."""
    with core.account.changed:
        tasks = list(core.account.job(job_id).tasks.values())
        after = request.query.get("$skiptoken", "0")
        start = _position(tasks, int(after)) if after.isdigit() else 0
        entries = ((task.sequence, task.wire) for task in tasks[start:])
        return answer(page(request, core.account.url, entries))


def _position(tasks: list[Task], sequence: int) -> int:
    """Where the first task after a sequence number is; tasks are in their order."""
    low, high = 0, len(tasks)
    while low < high:
        middle = (low + high) // 2
        if tasks[middle].sequence <= sequence:
            low = middle + 1
        else:
            high = middle
    return low


def get(core: Core, request: Request, job_id: str, task_id: str) -> Response:
    """Get a task."""
    with core.account.changed:
        task = core.account.task(job_id, task_id)
        return entity_answer(task, select(request.query)(task.wire()))


def replace(core: Core, request: Request, job_id: str, task_id: str) -> Response:
    """Change a task's constraints."""
    constraints = request.json().get("constraints") or {}
    checks.duration(constraints, "maxWallClockTime")
    checks.duration(constraints, "retentionTime")
    checks.retries(constraints)
    with core.account.changed:
        task = core.account.task(job_id, task_id)
        if task.state == "completed":
            raise ServiceError(409, "TaskCompleted")
        task.spec["constraints"] = constraints
        task.touch(core.clock.now())
        return done(200, task, task.url)


def terminate(core: Core, _: Request, job_id: str, task_id: str) -> Response:
    """Terminate a task; answers when its processes have ended."""
    with core.account.changed:
        task = core.account.task(job_id, task_id)
        execution = core.lifecycle.terminate(task, BY_USER)
        core.account.changed.notify_all()
    if execution:
        execution.done.wait(30)
    return done(204, task, task.url)


def list_subtasks(core: Core, request: Request, job_id: str, task_id: str) -> Response:
    """List the subtasks of a multi-instance task, all but the primary."""
    with core.account.changed:
        task = core.account.task(job_id, task_id)
        chosen = select(request.query)
        response = answer({"value": [chosen(dict(info)) for info in task.subtasks]})
        response.headers["Last-Modified"] = http_date(task.last_modified)
        return response


OPERATIONS: list[Operation] = [
    ("POST", "/jobs/{jobId}/tasks", create),
    ("GET", "/jobs/{jobId}/tasks", list_all),
    ("POST", "/jobs/{jobId}/addtaskcollection", create_collection),
    ("GET", "/jobs/{jobId}/tasks/{taskId}", get),
    ("PUT", "/jobs/{jobId}/tasks/{taskId}", replace),
    ("POST", "/jobs/{jobId}/tasks/{taskId}/terminate", terminate),
    ("GET", "/jobs/{jobId}/tasks/{taskId}/subtasksinfo", list_subtasks),
]
