"""Operations on files: a task's own, and all on a node."""

from __future__ import annotations

import shutil
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fairway_simulator.batch.model.pool import REACHABLE
from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.http import Response

if TYPE_CHECKING:
    import os

    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request
    from fairway_simulator.batch.wire.router import Operation


def _task_folder(core: Core, job_id: str, task_id: str) -> tuple[Path, str]:
    """The folder of a task's last attempt, and the address of its files."""
    with core.account.changed:
        task = core.account.task(job_id, task_id)
        if not task.where:
            raise ServiceError(409, "TaskDidNotRun")
        if task.files_gone:
            raise ServiceError(409, "TaskFilesCleanedup")
        pool = core.account.pools.get(task.job.pool_id.lower())
        node = pool.nodes.get(task.where["nodeId"]) if pool else None
        if node is None or node.state not in REACHABLE:
            raise ServiceError(409, "TaskFilesUnavailable")
        return node.folder / task.where["taskRootDirectory"], f"{task.url}/files"


def _node_folder(core: Core, pool_id: str, node_id: str) -> tuple[Path, str]:
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if node.state not in REACHABLE:
            raise ServiceError(409, "NodeNotReady")
        return node.folder, f"{node.url}/files"


def get_of_task(core: Core, request: Request, job_id: str, task_id: str, name: str) -> Response:
    """Read a task's file, or a part of it."""
    return _get(request, *_task_folder(core, job_id, task_id), name)


def get_of_node(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Response:
    """Read a node's file, or a part of it."""
    return _get(request, *_node_folder(core, pool_id, node_id), name)


def delete_of_task(core: Core, request: Request, job_id: str, task_id: str, name: str) -> Response:
    """Delete a task's file."""
    return _delete(request, _task_folder(core, job_id, task_id)[0], name)


def _find(folder: Path, name: str) -> Path:
    path = folder / name
    if name.startswith("/") or ".." in Path(name).parts or not path.exists():
        raise ServiceError(404, "FileNotFound")
    return path


def _get(request: Request, folder: Path, url: str, name: str) -> Response:
    path = _find(folder, name)
    if path.is_dir():
        return Response(200, {"ocp-batch-file-isdirectory": "true"})
    status = path.stat()
    headers = _headers(status, f"{url}/{quote(name, safe='')}")
    start, end = _range(request.headers.get("ocp-range", ""), status.st_size)
    file = path.open("rb")
    return Response(200, headers, file=file, offset=start, length=end - start)


def _headers(status: os.stat_result, url: str) -> dict[str, str]:
    return {
        "Content-Type": "application/octet-stream",
        "Last-Modified": formatdate(status.st_mtime, usegmt=True),
        "ocp-creation-time": formatdate(status.st_ctime, usegmt=True),
        "ocp-batch-file-isdirectory": "false",
        "ocp-batch-file-url": url,
        "ocp-batch-file-mode": oct(status.st_mode),
    }


def _range(header: str, size: int) -> tuple[int, int]:
    """The bytes that are wanted, from and up to; 416 where the file has none of them."""
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


def _delete(request: Request, folder: Path, name: str) -> Response:
    path = _find(folder, name)
    if path.is_dir():
        if request.query.get("recursive", "false").lower() != "true":
            raise ServiceError(409, "OperationInvalidForCurrentState")
        shutil.rmtree(path)
    else:
        path.unlink()
    return Response(200)


OPERATIONS: list[Operation] = [
    ("GET", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}", get_of_task),
    ("DELETE", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}", delete_of_task),
    ("GET", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}", get_of_node),
]
