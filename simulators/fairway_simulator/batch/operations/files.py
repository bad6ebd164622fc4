"""Operations on files: a task's own, and all on a node."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_simulator.batch.clock import wire_time
from fairway_simulator.batch.model.pool import REACHABLE
from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.http import Response
from fairway_simulator.batch.wire.query import page
from fairway_simulator.batch.wire.router import answer

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

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


def list_of_task(core: Core, request: Request, job_id: str, task_id: str) -> Response:
    """List the files of a task."""
    return _list(core, request, *_task_folder(core, job_id, task_id))


def list_of_node(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """List the files of a node."""
    return _list(core, request, *_node_folder(core, pool_id, node_id))


def get_of_task(core: Core, request: Request, job_id: str, task_id: str, name: str) -> Response:
    """Read a task's file, or a part of it."""
    return _get(request, *_task_folder(core, job_id, task_id), name)


def get_of_node(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Response:
    """Read a node's file, or a part of it."""
    return _get(request, *_node_folder(core, pool_id, node_id), name)


def delete_of_task(core: Core, request: Request, job_id: str, task_id: str, name: str) -> Response:
    """Delete a task's file."""
    return _delete(request, _task_folder(core, job_id, task_id)[0], name)


def delete_of_node(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Response:
    """Delete a node's file."""
    return _delete(request, _node_folder(core, pool_id, node_id)[0], name)


def _list(core: Core, request: Request, folder: Path, url: str) -> Response:
    recursive = request.query.get("recursive", "false").lower() == "true"
    query = dict(request.query)
    start = ""
    text = query.pop("$filter", "")
    if text:
        # A filter of files knows the start of the name and nothing else.
        parts = text.replace("'", " ").replace("(", " ").replace(",", " ").replace(")", " ").split()
        if len(parts) != 3 or parts[0].lower() != "startswith" or parts[1] != "name":
            raise ServiceError(400, "InvalidQueryParameterValue", QueryParameterName="$filter")
        start = parts[2]
    found = sorted(
        path.relative_to(folder).as_posix() for path in _walk(folder, recursive=recursive)
    )
    entries = [
        (number, lambda name=name: _entry(folder, name, url))
        for number, name in enumerate(found, start=1)
        if name.startswith(start)
    ]
    plain = type(request)(
        request.method, request.path, query, request.headers, request.body, request.parts
    )
    listed = page(plain, core.account.url, entries)
    if "odata.nextLink" in listed and text:
        listed["odata.nextLink"] += f"&$filter={quote(text)}"
    return answer(listed)


def _walk(folder: Path, *, recursive: bool) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        yield path
        if recursive and path.is_dir() and not path.is_symlink():
            yield from _walk(path, recursive=True)


def _entry(folder: Path, name: str, url: str) -> dict[str, Any]:
    path = folder / name
    entry: dict[str, Any] = {"name": name, "url": f"{url}/{quote(name, safe='')}"}
    try:
        status = path.stat()
    except OSError:
        return entry | {"isDirectory": False}
    if path.is_dir():
        return entry | {"isDirectory": True}
    return entry | {
        "isDirectory": False,
        "properties": {
            "creationTime": _time(status.st_ctime),
            "lastModified": _time(status.st_mtime),
            "contentLength": status.st_size,
            "contentType": "application/octet-stream",
            "fileMode": oct(status.st_mode),
        },
    }


def _time(moment: float) -> str:
    return wire_time(datetime.fromtimestamp(moment, UTC))


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
    if request.method == "HEAD":
        return Response(200, {**headers, "x-length": str(status.st_size)})
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
    ("GET", "/jobs/{jobId}/tasks/{taskId}/files", list_of_task),
    ("GET", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}", get_of_task),
    ("HEAD", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}", get_of_task),
    ("DELETE", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}", delete_of_task),
    ("GET", "/pools/{poolId}/nodes/{nodeId}/files", list_of_node),
    ("GET", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}", get_of_node),
    ("HEAD", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}", get_of_node),
    ("DELETE", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}", delete_of_node),
]
