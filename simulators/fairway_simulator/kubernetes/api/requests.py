"""A request, what it is about, and the answers that there are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fairway_simulator.kubernetes.api import protobuf
from fairway_simulator.kubernetes.api.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket


@dataclass(frozen=True)
class Identity:
    """Who asks."""

    user: str
    groups: tuple[str, ...] = ()
    node: str = ""
    """Of the pod that the token was made for."""


@dataclass
class Request:
    """One request; `parts` are the segments of its path."""

    method: str
    path: str
    parts: list[str]
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    target: str
    """The path and the query as they were written."""
    identity: Identity = field(default_factory=lambda: Identity("system:anonymous"))

    def option(self, name: str) -> str:
        """The value of a parameter, "" where it is not given."""
        return self.query.get(name, [""])[0]

    def switch(self, name: str) -> bool:
        """Whether a parameter says yes."""
        return self.option(name) in ("1", "true", "True")

    def json(self) -> Any:
        """The body, JSON or YAML; 400 where it is neither."""
        form = self.headers.get("content-type", "")
        if "protobuf" in form:
            return protobuf.decode(self.body)
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


@dataclass
class Answer:
    """What is sent at once: a document, or text."""

    document: Any = None
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: bytes | None = None


@dataclass
class Stream:
    """What is sent bit by bit, until it ends or the client goes."""

    pieces: Iterator[bytes]
    content_type: str = "application/json"


@dataclass
class Takeover:
    """The connection is handed over, with what it has already sent."""

    serve: Callable[[socket], None]


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
