"""The API server as one object: its parts, and how it answers a request; and discovery for clients:
the version, the groups with their resources, the outline of OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.faults import Fault, Faults
from fairway_simulator.http import Answer, Reply, Request
from fairway_simulator.kubernetes.api import schemas
from fairway_simulator.kubernetes.api.access import Access, Action
from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.objects import Objects, verb_of
from fairway_simulator.kubernetes.api.pods import PodRequests
from fairway_simulator.kubernetes.api.requests import (
    ApiError,
    ApiRequest,
    ObjectPath,
    object_path_of,
    unknown_resource,
)
from fairway_simulator.kubernetes.api.resources import (
    BUILT_IN,
    KUEUE,
    PODS,
    PROVISIONING_REQUESTS,
    REVIEWS,
    SERVICE_ACCOUNTS,
    Resource,
)
from fairway_simulator.kubernetes.api.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence


OWN = "system:fairway"
"""The user of the cluster's own components, which faults never affect."""


_WORDS = {
    429: "the server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "the server is currently unable to handle the request",
    504: "Timeout: request did not complete within requested timeout - context deadline exceeded",
}


class ApiService:
    """The API server; `kueue` adds the resources of Kueue, and `provisioning` those of an
    autoscaler that supports ProvisioningRequests."""

    def __init__(self, *, kueue: bool = False, provisioning: bool = False) -> None:
        self.store = Store()
        self.access = Access(self.store)
        self.admission = Admission(self.store)
        self.faults = Faults(_refuse)
        self.kubelet_token = self.access.issue(OWN, ["system:masters"])
        found = [*BUILT_IN, *(KUEUE if kueue else ())]
        found += [PROVISIONING_REQUESTS] * provisioning
        self._resources = {(each.group, each.version, each.plural): each for each in found}
        self._reviews = {(each.group, each.version, each.plural) for each in REVIEWS}
        self._discovery = Discovery(found)
        self._objects = Objects(self.store, self.admission)
        self._pods = PodRequests(self.store, self.kubelet_token)

    def handle(self, request: Request) -> Reply:
        try:
            identity = self.access.identify(request)
            asked = ApiRequest(
                request.method, request.target, request.headers, request.body, identity=identity
            )
            if identity.user == OWN:
                return self._answer(asked)
            return self.faults.apply(asked, lambda _: self._answer(asked))
        except ApiError as error:
            return Answer(error.status(), error.code, error.headers)

    def _answer(self, request: ApiRequest) -> Reply:
        object_path = object_path_of(request.parts)
        if object_path is None or request.parts[0] == "openapi":
            self.access.require(request.identity, Action("get", path=request.path))
            if found := self._discovery.answer(request.parts):
                return found
            raise ApiError(404, "the server could not find the requested resource")
        key = (object_path.group, object_path.version, object_path.plural)
        if key in self._reviews and request.method == "POST":
            self._require(request, object_path, "create")
            return self.access.review(request.identity, request.object())
        resource = self._resources.get(key)
        if resource is None:
            raise unknown_resource()
        self._require(request, object_path, verb_of(request, object_path))
        if resource is PODS and object_path.subresource in resource.subresources:
            return self._pods.answer(request, object_path)
        if resource is SERVICE_ACCOUNTS and object_path.subresource == "token":
            return self._token(request, object_path)
        if object_path.subresource and (object_path.subresource != "status" or not resource.status):
            raise unknown_resource()
        return self._objects.handle(request, resource, object_path)

    def _token(self, request: ApiRequest, object_path: ObjectPath) -> Answer:
        if request.method != "POST":
            raise unknown_resource()
        account = self.store.get(SERVICE_ACCOUNTS, object_path.namespace, object_path.name)
        sent = request.object()
        spec = sent.get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        pod = None
        if bound.get("kind") == "Pod":
            pod = self.store.find(PODS, object_path.namespace, bound["name"])
        node = pod["spec"].get("nodeName", "") if pod else ""
        token, until = self.access.issue_for(account, spec.get("expirationSeconds"), node)
        status = {"token": token, "expirationTimestamp": until}
        kind = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return Answer({**sent, **kind, "status": status}, 201)

    def _require(self, request: ApiRequest, object_path: ObjectPath, verb: str) -> None:
        action = Action(
            verb,
            object_path.plural,
            object_path.group,
            object_path.subresource,
            object_path.namespace,
            object_path.name,
        )
        self.access.require(request.identity, action)


def _refuse(fault: Fault) -> ApiError:
    headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
    message = _WORDS.get(fault.status, "an error on the server has prevented the request")
    return ApiError(fault.status, message, headers=headers)


_VERBS = ["create", "delete", "get", "list", "patch", "watch"]


class Discovery:
    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = [*resources, *REVIEWS]

    def answer(self, parts: list[str]) -> Answer | None:
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
        """Returns just enough of OpenAPI to tell clients that the server validates fields."""
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
    }
    names = [*resource.subresources, *(["status"] if resource.status else [])]
    below = {**own, "shortNames": [], "verbs": ["get", "create"]}
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
