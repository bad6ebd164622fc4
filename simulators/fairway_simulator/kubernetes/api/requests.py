"""A request of somebody, and what it is about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fairway_simulator.http import Request
from fairway_simulator.kubernetes.api.errors import ApiError, bad_request


@dataclass(frozen=True)
class Identity:
    """Who asks."""

    user: str
    groups: tuple[str, ...] = ()
    node: str = ""
    """Of the pod that the token was made for."""


@dataclass
class ApiRequest(Request):
    """A request of somebody who is known."""

    identity: Identity = field(default_factory=lambda: Identity("system:anonymous"))

    def json(self) -> Any:
        """The body, JSON or YAML; 400 where it is neither."""
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
        """The body, which must be an object."""
        found = self.json()
        if not isinstance(found, dict):
            raise bad_request("couldn't get version/kind; json parse error: no object")
        return found


@dataclass(frozen=True)
class ObjectPath:
    """What a path means: a resource by its group and plural, maybe a name and a subresource."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def object_path_of(parts: list[str]) -> ObjectPath | None:
    """What the segments of a path mean, None where no resource is meant."""
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
