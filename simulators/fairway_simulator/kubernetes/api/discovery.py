"""First requests of a client: the version, the groups with their resources, OpenAPI's outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.http import Answer
from fairway_simulator.kubernetes.api import schemas
from fairway_simulator.kubernetes.api.resources import REVIEWS, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence


_ALL = ("pods", "services", "deployments", "jobs")
"""Resources that `kubectl get all` lists."""
_VERBS = ["create", "delete", "get", "list", "patch", "watch"]


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
