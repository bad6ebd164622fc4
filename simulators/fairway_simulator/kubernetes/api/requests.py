"""A request, its identity, its object path, and the real server's error responses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fairway_simulator.http import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_simulator.kubernetes.api.resources import Resource


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ApiError(Exception):
    """An error response; `details` name the object."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str = "",
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or _REASONS.get(code, "")
        self.details = details or {}
        self.headers = headers or {}

    def status(self) -> dict[str, Any]:
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, message, details=_about(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    """Returns the error (409) that the name is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, message, "AlreadyExists", _about(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> ApiError:
    """Returns the error (409) that the object has been changed in between."""
    why = why or _MODIFIED
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, message, "Conflict", _about(resource, name))


def invalid(resource: Resource, name: str, causes: Sequence[str]) -> ApiError:
    """Returns the error (422) that values are invalid; each cause begins with the field's path."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    said = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    details = {
        "name": name,
        "group": resource.group,
        "kind": resource.kind,
        "causes": [_cause(cause) for cause in causes],
    }
    return ApiError(422, f'{kind} "{name}" is invalid: {said}', details=details)


def bad_request(message: str) -> ApiError:
    """Returns the error (400) that the request cannot be parsed."""
    return ApiError(400, message)


def expired(message: str) -> ApiError:
    """Returns the error (410) that the changes since then are no longer stored."""
    return ApiError(410, message, "Expired")


def _about(resource: Resource, name: str) -> dict[str, Any]:
    return {"name": name, "group": resource.group, "kind": resource.plural}


def _cause(cause: str) -> dict[str, str]:
    field, _, message = cause.partition(": ")
    reason = "FieldValueRequired" if message.startswith("Required") else "FieldValueInvalid"
    return {"reason": reason, "message": message, "field": field}


@dataclass(frozen=True)
class Identity:
    user: str
    groups: tuple[str, ...] = ()
    node: str = ""
    """The node of the pod that the token was issued for."""


# Bytes. Source: kubernetes/apiserver, pkg/server/config.go, MaxRequestBodyBytes.
_LARGEST = 3 << 20


@dataclass
class ApiRequest(Request):
    identity: Identity = field(default_factory=lambda: Identity("system:anonymous"))

    def json(self) -> Any:
        """Parses the body, JSON or YAML. Raises ApiError: 400 if invalid, 413 if too large."""
        if len(self.body) > _LARGEST:
            raise ApiError(413, f"Request entity too large: limit is {_LARGEST}")
        form = self.headers.get("content-type", "")
        if "protobuf" in form:
            raise ApiError(415, "protobuf is not taken here: send JSON")
        try:
            if "yaml" in form:
                return YAML(typ="safe", pure=True).load(self.body)
            return json.loads(self.body)
        except (ValueError, YAMLError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None

    def object(self) -> dict[str, Any]:
        found = self.json()
        if not isinstance(found, dict):
            raise bad_request("couldn't get version/kind; json parse error: no object")
        return found


@dataclass(frozen=True)
class ObjectPath:
    """Parts of a path: the resource's group and plural, and optionally a name and a subresource."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def object_path_of(parts: list[str]) -> ObjectPath | None:
    """Parses a path's segments. Returns None if the path is not of a resource."""
    if parts[:2] == ["api", "v1"] and len(parts) > 2:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    rest += ["", ""]
    return ObjectPath(group, version, rest[0], namespace, rest[1], rest[2])


def unknown_resource() -> ApiError:
    return ApiError(404, "the server could not find the requested resource", "NotFound")
