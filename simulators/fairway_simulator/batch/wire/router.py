"""Finds the operation for a request, and dresses its answer."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.clock import http_date
from fairway_simulator.batch.wire import bodies
from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.http import CutConnection, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.entity import Entity
    from fairway_simulator.batch.wire.http import Request

    Handler = Callable[..., Response]
    Operation = tuple[str, str, Handler]

API_VERSION = "2025-06-01"


class Router:
    """The operations by verb and path; `{…}` in a path stands for one segment."""

    def __init__(self, core: Core, operations: Iterable[Operation]) -> None:
        self._core = core
        self._known: defaultdict[tuple[str, int], list[tuple[str, list[str], Handler]]]
        self._known = defaultdict(list)
        for method, path, handler in operations:
            segments = path.strip("/").split("/")
            self._known[method, len(segments)].append((path, segments, handler))

    def __call__(self, request: Request) -> Response:
        """The answer to a request; CutConnection where a fault leaves it without one."""
        core = self._core
        try:
            if request.parts[0] == "simulator":
                return self._dispatch(request)
            response = core.faults.apply(request, self._authenticated)
        except ServiceError as error:
            response = self._error(error)
        except CutConnection:
            raise
        except Exception:  # noqa: BLE001 - the service answers even where it is wrong itself
            import traceback

            traceback.print_exc()
            response = self._error(ServiceError(500, "InternalError"))
        response.headers.setdefault("request-id", str(uuid.uuid4()))
        response.headers.setdefault("DataServiceVersion", "3.0")
        response.headers.setdefault("Date", http_date(core.clock.now()))
        if "client-request-id" in request.headers:
            response.headers["client-request-id"] = request.headers["client-request-id"]
        return response

    def _authenticated(self, request: Request) -> Response:
        self._core.authenticator.check(request)
        version = request.query.get("api-version")
        if version is None:
            raise ServiceError(
                400, "MissingRequiredQueryParameter", QueryParameterName="api-version"
            )
        if version != API_VERSION:
            raise ServiceError(
                400,
                "InvalidQueryParameterValue",
                QueryParameterName="api-version",
                QueryParameterValue=version,
                Reason=f"the simulator speaks {API_VERSION}",
            )
        kind = request.headers.get("content-type", "")
        if request.body and not kind.startswith("application/json; odata="):
            raise ServiceError(
                400, "InvalidHeaderValue", HeaderName="Content-Type", HeaderValue=kind
            )
        return self._dispatch(request)

    def _dispatch(self, request: Request) -> Response:
        for path, segments, handler in self._known[request.method, len(request.parts)]:
            values = []
            for wanted, given in zip(segments, request.parts, strict=True):
                if wanted[0] == "{":
                    values.append(given)
                elif wanted != given:
                    break
            else:
                if request.body:
                    bodies.check(request.method, path, request)
                return handler(self._core, request, *values)
        raise ServiceError(404, "ResourceNotFound")

    def _error(self, error: ServiceError) -> Response:
        request_id = str(uuid.uuid4())
        headers = {
            "request-id": request_id,
            "Content-Type": "application/json;odata=minimalmetadata",
        }
        if "retry_after" in error.values:
            headers["Retry-After"] = str(error.values.pop("retry_after"))
        body = b"" if error.status == 304 else error.body(request_id, self._core.clock.now())
        return Response(error.status, headers, body)


def answer(document: dict[str, Any], status: int = 200) -> Response:
    """A document as the service sends it."""
    headers = {"Content-Type": "application/json;odata=minimalmetadata"}
    return Response(status, headers, json.dumps(document).encode())


def entity_answer(entity: Entity, document: dict[str, Any]) -> Response:
    """A document with the ETag of what it shows."""
    response = answer(document)
    response.headers |= entity_headers(entity)
    return response


def done(status: int, entity: Entity | None = None, url: str = "") -> Response:
    """An answer without a body."""
    headers = entity_headers(entity) if entity else {}
    if url:
        headers |= {"Location": url, "DataServiceId": url}
    return Response(status, headers)


def entity_headers(entity: Entity) -> dict[str, str]:
    """The ETag and the time of the last change, as headers."""
    return {"ETag": f'"{entity.etag}"', "Last-Modified": http_date(entity.last_modified)}
