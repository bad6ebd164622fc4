"""Operations on tasks and on files, of a task or of a node."""

from __future__ import annotations

from bisect import bisect_right
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_simulator.batch.model.entity import http_date
from fairway_simulator.batch.model.job import Task
from fairway_simulator.batch.model.pool import REACHABLE
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.jobs import BY_USER
from fairway_simulator.batch.wire.bodies import ServiceError, invalid_property
from fairway_simulator.batch.wire.router import answer, done, entity_answer, page
from fairway_simulator.http import Answer

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.job import Job
    from fairway_simulator.batch.wire.router import Later, Operation
    from fairway_simulator.http import Request

_MOST = 100


def create(core: Core, request: Request, job_id: str) -> Answer:
    task = _add(core, core.account.open_job(job_id), request.document)
    return done(201, task, task.url)


def create_collection(core: Core, request: Request, job_id: str) -> Answer:
    """Add up to 100 tasks, each with its own result."""
    specs = request.document.get("value")
    if not isinstance(specs, list):
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="value")
    if len(specs) > _MOST:
        raise invalid_property("value", len(specs), f"at most {_MOST} tasks")
    job = core.account.open_job(job_id)
    return answer({"value": [_try_add(core, request, job, spec) for spec in specs]})


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
    task = Task(job, spec, core.account.next_sequence(), core.clock.now())
    job.add(task)
    return task


def list_all(core: Core, request: Request, job_id: str) -> Answer:
    tasks = list(core.account.job(job_id).tasks.values())
    # Tasks are sorted by sequence number, and may be many.
    after = int(request.option("$skiptoken", "0"))
    start = bisect_right(tasks, after, key=lambda task: task.sequence)
    return page(core, request, ((task.sequence, task.wire) for task in tasks[start:]))


def get(core: Core, request: Request, job_id: str, task_id: str) -> Answer:
    task = core.account.task(job_id, task_id)
    return entity_answer(request, task, task.wire())


def replace(core: Core, request: Request, job_id: str, task_id: str) -> Answer:
    constraints = request.document.get("constraints") or {}
    checks.limits(constraints)
    task = core.account.task(job_id, task_id)
    if task.state == "completed":
        raise ServiceError(409, "TaskCompleted")
    task.spec["constraints"] = constraints
    task.touch(core.clock.now())
    return done(200, task, task.url)


def terminate(core: Core, _: Request, job_id: str, task_id: str) -> Later:
    """Terminate a task; answers when its processes have ended."""
    task = core.account.task(job_id, task_id)
    execution = core.lifecycle.terminate(task, BY_USER)

    def ended() -> Answer:
        if execution:
            execution.done.wait(30)
        return done(204, task, task.url)

    return ended


def list_subtasks(core: Core, _: Request, job_id: str, task_id: str) -> Answer:
    """List the subtasks of a multi-instance task, without the primary."""
    task = core.account.task(job_id, task_id)
    reply = answer({"value": [dict(info) for info in task.subtasks]})
    reply.headers["Last-Modified"] = http_date(task.last_modified)
    return reply


def get_file(core: Core, request: Request, job_id: str, task_id: str, name: str) -> Answer:
    url = f"{core.account.task(job_id, task_id).url}/files"
    return _read(request, _of_task(core, job_id, task_id, name), f"{url}/{quote(name, safe='')}")


def delete_file(core: Core, _: Request, job_id: str, task_id: str, name: str) -> Answer:
    _of_task(core, job_id, task_id, name).unlink()
    return done(200)


def get_node_file(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Answer:
    node = core.account.node(pool_id, node_id)
    if node.state not in REACHABLE:
        raise ServiceError(409, "NodeNotReady")
    return _read(request, _find(node.folder, name), f"{node.url}/files/{quote(name, safe='')}")


def _of_task(core: Core, job_id: str, task_id: str, name: str) -> Path:
    task = core.account.task(job_id, task_id)
    if not task.where:
        raise ServiceError(409, "TaskDidNotRun")
    if task.files_gone:
        raise ServiceError(409, "TaskFilesCleanedup")
    pool = core.account.pools.get(task.job.pool_id.lower())
    node = pool.nodes.get(task.where["nodeId"]) if pool else None
    if node is None or node.state not in REACHABLE:
        raise ServiceError(409, "TaskFilesUnavailable")
    return _find(node.folder / task.where["taskRootDirectory"], name)


def _find(folder: Path, name: str) -> Path:
    path = folder / name
    if name.startswith("/") or ".." in Path(name).parts or not path.is_file():
        raise ServiceError(404, "FileNotFound")
    return path


def _read(request: Request, path: Path, url: str) -> Answer:
    status = path.stat()
    headers = {
        "Content-Type": "application/octet-stream",
        "Last-Modified": formatdate(status.st_mtime, usegmt=True),
        "ocp-creation-time": formatdate(status.st_ctime, usegmt=True),
        "ocp-batch-file-isdirectory": "false",
        "ocp-batch-file-url": url,
        "ocp-batch-file-mode": oct(status.st_mode),
    }
    start, end = _range(request.headers.get("ocp-range", ""), status.st_size)
    with path.open("rb") as file:
        file.seek(start)
        return Answer(headers=headers, body=file.read(end - start))


def _range(header: str, size: int) -> tuple[int, int]:
    """Parses a range header into start and end offsets. Raises ServiceError (416) past the end."""
    if not header:
        return 0, size
    unit, _, span = header.partition("=")
    first, _, last = span.partition("-")
    if unit.strip() != "bytes" or not first.isdigit() or (last and not last.isdigit()):
        raise ServiceError(400, "InvalidHeaderValue", HeaderName="ocp-range", HeaderValue=header)
    start = int(first)
    end = min(size, int(last) + 1) if last else size
    if start >= size or end <= start:
        raise ServiceError(416, "InvalidRange")
    return start, end


_TASK = "/jobs/{jobId}/tasks/{taskId}"
OPERATIONS: list[Operation] = [
    ("POST", "/jobs/{jobId}/tasks", create),
    ("GET", "/jobs/{jobId}/tasks", list_all),
    ("POST", "/jobs/{jobId}/addtaskcollection", create_collection),
    ("GET", _TASK, get),
    ("PUT", _TASK, replace),
    ("POST", f"{_TASK}/terminate", terminate),
    ("GET", f"{_TASK}/subtasksinfo", list_subtasks),
    ("GET", f"{_TASK}/files/{{filePath}}", get_file),
    ("DELETE", f"{_TASK}/files/{{filePath}}", delete_file),
    ("GET", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}", get_node_file),
]
