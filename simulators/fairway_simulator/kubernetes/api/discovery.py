"""Answers for kubectl: the version, groups and their resources, OpenAPI's outline, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.http import Answer
from fairway_simulator.kubernetes.api import schemas
from fairway_simulator.kubernetes.api.resources import REVIEWS, Resource
from fairway_simulator.kubernetes.conditions import is_true, seconds_since

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_simulator.kubernetes.api.requests import ApiRequest
    from fairway_simulator.kubernetes.api.store import Object

    Column = Callable[[Object], Any]


_ALL = ("pods", "services", "deployments", "replicasets", "jobs")
"""What `kubectl get all` means."""
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


class Discovery:
    """Answers for the resources that there are."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = [*resources, *REVIEWS]

    def answer(self, parts: list[str]) -> Answer | None:
        """The answer for a path, None where it is none of these."""
        match parts:
            case ["version"]:
                return Answer(_version())
            case ["healthz" | "livez" | "readyz", *_]:
                return Answer(body=b"ok", headers={"Content-Type": "text/plain"})
            case ["api"]:
                return Answer({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                groups = [self._group(name) for name in self._groups()]
                return Answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            case ["apis", group] if group in self._groups():
                return Answer({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["api", "v1"]:
                return self._list("", "v1")
            case ["apis", group, version] if f"{group}/{version}" in self._versions():
                return self._list(group, version)
            case ["openapi", "v3", *rest]:
                return self._outline(rest)
        return None

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(each.group for each in self._resources if each.group))

    def _versions(self) -> set[str]:
        return {each.api_version for each in self._resources}

    def _group(self, name: str) -> dict[str, Any]:
        version = next(each.version for each in self._resources if each.group == name)
        known = {"groupVersion": f"{name}/{version}", "version": version}
        return {"name": name, "versions": [known], "preferredVersion": known}

    def _list(self, group: str, version: str) -> Answer:
        found = []
        for each in self._resources:
            if (each.group, each.version) == (group, version):
                found += _entries(each)
        name = f"{group}/{version}" if group else version
        document = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name}
        return Answer({**document, "resources": found})

    def _outline(self, rest: list[str]) -> Answer | None:
        """So much of OpenAPI that a client finds that the server checks fields itself."""
        if not rest:
            paths = {
                _folder(each): {"serverRelativeURL": f"/openapi/v3/{_folder(each)}"}
                for each in self._resources
            }
            return Answer({"paths": paths})
        found = [each for each in self._resources if _folder(each) == "/".join(rest)]
        if not found:
            return None
        info = {"title": "Kubernetes", "version": f"v{schemas.newest()}"}
        paths = {f"/{_folder(each)}/{each.plural}/{{name}}": _patching(each) for each in found}
        return Answer({"openapi": "3.0.0", "info": info, "paths": paths})


def _version() -> dict[str, str]:
    number = schemas.newest()
    major, minor, _ = number.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{number}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _entries(resource: Resource) -> list[dict[str, Any]]:
    own = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if resource in REVIEWS else _VERBS,
        "shortNames": list(resource.short),
        "categories": ["all"] if resource.plural in _ALL else [],
    }
    names = [*resource.subresources, *(["status"] if resource.status else [])]
    below = {**own, "shortNames": [], "categories": [], "verbs": ["get", "create"]}
    return [own, *({**below, "name": f"{resource.plural}/{name}"} for name in names)]


def _folder(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else "api/v1"


def _patching(resource: Resource) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    return {
        "patch": {
            "parameters": [parameter],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
        }
    }


def wanted(request: ApiRequest) -> bool:
    """Whether the client would rather have a table."""
    is_reading = request.method == "GET" and not request.switch("watch")
    return is_reading and "as=Table" in request.headers.get("accept", "").partition(",")[0]


def of(resource: Resource, answer: Answer) -> Answer:
    """The table of an object or of a list."""
    document = answer.document
    items = document.get("items") if document.get("kind", "").endswith("List") else [document]
    if items is None or document.get("kind") == "Status":
        return answer
    columns = _COLUMNS.get(resource.plural, {})
    names = ["Name", *columns, "Age"]
    return Answer(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": document.get("metadata") if "items" in document else {},
            "columnDefinitions": [_definition(name) for name in names],
            "rows": [
                {"cells": _cells(each, columns), "object": resource.to_wire(each)} for each in items
            ],
        },
        answer.status,
    )


def _definition(name: str) -> dict[str, Any]:
    form = "name" if name == "Name" else ""
    return {"name": name, "type": "string", "format": form, "description": name, "priority": 0}


def _cells(found: Object, columns: dict[str, Column]) -> list[Any]:
    metadata = found["metadata"]
    age = _duration(seconds_since(metadata["creationTimestamp"]))
    return [metadata["name"], *(column(found) for column in columns.values()), age]


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _pod_ready(pod: Object) -> str:
    known = pod["status"].get("containerStatuses") or ()
    ready = sum(1 for each in known if each.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for each in pod["status"].get("containerStatuses") or ():
        for state in ("waiting", "terminated"):
            if reason := (each["state"].get(state) or {}).get("reason"):
                return str(reason)
    return str(pod["status"].get("phase", "Pending"))


def _restarts(pod: Object) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses") or ())


def _node_status(node: Object) -> str:
    ready = "Ready" if is_true(node, "Ready") else "NotReady"
    return f"{ready},SchedulingDisabled" if node["spec"].get("unschedulable") else ready


_COLUMNS: dict[str, dict[str, Column]] = {
    "pods": {"Ready": _pod_ready, "Status": _pod_status, "Restarts": _restarts},
    "nodes": {"Status": _node_status},
}
