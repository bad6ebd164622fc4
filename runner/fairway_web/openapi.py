"""The OpenAPI document: what programs read to make calls, and tests to try them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

import fairway_core
from fairway_core.schema import schema_of
from fairway_web.calls import CALLS, RECORDS, TEXT
from fairway_web.submitting import Asked

if TYPE_CHECKING:
    from starlette.requests import Request

    from fairway_web.calls import Call, Parameter, Schema

_REFUSALS = {
    401: "the token is missing or invalid",
    403: "the request came from a page of another site, or the role does not allow it there",
    404: "there is no such run, task, file, target, node or environment",
    409: "the run is in the wrong state",
    413: "the request is too long",
    421: "the server has another name",
    422: "a mistake in the request",
    429: "many requests of this person are answered now",
    502: "a service failed",
    503: "the keys of the sign-in cannot be fetched",
}
_OF_BODIES = frozenset({409, 413})
"""What a call that only reads never answers."""


async def openapi(request: Request) -> Response:
    """The document."""
    return JSONResponse(document())


@cache
def document() -> dict[str, Any]:
    """All calls below `/api/v1`."""
    asked = schema_of(Asked, title="Job")
    asked = {name: part for name, part in asked.items() if name not in ("$schema", "$defs")}
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairway",
            "version": fairway_core.__version__,
            "description": "The runs of one project, as `fairway serve` shows them.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**RECORDS, "Job": asked},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
        for name in call.in_path
    ]
    operation: dict[str, Any] = {
        "operationId": call.name,
        "description": call.says,
        "parameters": [*in_path, *map(_parameter, call.takes)],
        "responses": _responses(call),
    }
    if call.has_job:
        content = {"application/json": {"schema": _named("Job")}}
        operation["requestBody"] = {"required": True, "content": content}
    elif call.body:
        content = {kind: {"schema": schema} for kind, schema in call.body.items()}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameter(taken: Parameter) -> dict[str, Any]:
    where = "header" if taken.is_header else "query"
    return {"name": taken.name, "in": where, "description": taken.says, "schema": taken.schema}


def _responses(call: Call) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": call.says, "content": _content(call)}
    if call.headers:
        answer["headers"] = {name: {"schema": TEXT} for name in call.headers}
    findings = {"application/json": {"schema": _named("Findings")}}
    refusals = {
        str(status): {"description": says, "content": findings}
        for status, says in _REFUSALS.items()
        if call.method != "get" or status not in _OF_BODIES
    }
    return {str(call.status): answer, **refusals}


def _content(call: Call) -> dict[str, Any]:
    name, of_list, _ = call.answer.partition("[]")
    if "/" in name:
        # Whatever a file holds; of text it is known that it is text.
        schema: Schema = TEXT if name.startswith("text/") else {}
        media = name
    else:
        media = "application/json"
        schema = {"type": "array", "items": _named(name)} if of_list else _named(name)
    found: dict[str, Any] = {media: {"schema": schema}}
    if call.events:
        found["text/event-stream"] = {"schema": TEXT}
    return found


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
