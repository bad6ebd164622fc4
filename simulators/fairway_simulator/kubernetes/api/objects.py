"""Requests for objects of every resource: create, read, list, watch, write, delete."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_simulator.http import Answer, Stream
from fairway_simulator.kubernetes.api.patches import APPLY, patched
from fairway_simulator.kubernetes.api.requests import ApiError, bad_request, conflict, expired
from fairway_simulator.kubernetes.api.resources import NAMESPACES, PODS
from fairway_simulator.kubernetes.api.store import Watch, by_fields, by_labels
from fairway_simulator.kubernetes.events import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.kubernetes.api.admission import Admission
    from fairway_simulator.kubernetes.api.requests import ApiRequest, ObjectPath
    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object, Store


FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True)
class Options:
    grace: int | None = None
    propagation: str = ""
    uid: str = ""


def options_of(request: ApiRequest) -> Options:
    body: dict[str, Any] = request.object() if request.body.strip() else {}
    grace = body.get("gracePeriodSeconds", request.option("gracePeriodSeconds") or None)
    conditions = body.get("preconditions") or {}
    propagation = body.get("propagationPolicy") or request.option("propagationPolicy")
    if propagation == "Orphan":
        raise ApiError(422, "the stand-in leaves nothing without its owner")
    return Options(
        grace=None if grace is None else max(0, int(grace)),
        propagation=propagation,
        uid=conditions.get("uid") or "",
    )


def delete(store: Store, resource: Resource, found: Object, options: Options) -> Object | None:
    """Deletes an object, returning None, or marks it as being deleted if something holds it."""
    metadata = found["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        # See rest.BeforeDelete in k8s.io/apiserver.
        raise conflict(
            resource,
            metadata["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    if resource is NAMESPACES:
        # The collector empties the namespace before its removal.
        status = {**found["status"], "phase": "Terminating"}
        # The grace period prevents its removal at once.
        marked = {"deletionGracePeriodSeconds": 1, "deletionTimestamp": now(), **metadata}
        return store.replace(NAMESPACES, {**found, "metadata": marked, "status": status})
    grace = _grace(found, options) if resource is PODS else 0
    finalizers = _finalizers(metadata.get("finalizers") or [], options.propagation)
    marked = with_finalizers(metadata, finalizers)
    left = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or (left is not None and grace < left):
        marked |= {"deletionTimestamp": now(grace), "deletionGracePeriodSeconds": grace}
    if not finalizers and not grace:
        store.remove(resource, {**found, "metadata": marked})
        return None
    return store.replace(resource, {**found, "metadata": marked})


def with_finalizers(metadata: Object, finalizers: list[str]) -> Object:
    """Returns the metadata with these finalizers, or without the field if there are none."""
    others = {name: value for name, value in metadata.items() if name != "finalizers"}
    return {**others, "finalizers": finalizers} if finalizers else others


def _grace(pod: Object, options: Options) -> int:
    """Returns a pod's grace period in seconds; 0 if nothing of the pod runs."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace is not None:
        return options.grace
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30))


def _finalizers(known: list[str], propagation: str) -> list[str]:
    if not propagation:
        return known
    others = [each for each in known if each != FOREGROUND]
    return [*others, FOREGROUND] if propagation == "Foreground" else others


_TRIES = 5  # retries of a patch without a version, if the object was changed in between


def verb_of(request: ApiRequest, object_path: ObjectPath) -> str:
    """Returns the verb of a request as in roles. Raises ApiError (405) for an unknown method."""
    match request.method:
        case "GET" if object_path.subresource == "exec":
            return "create"  # a WebSocket starts with GET
        case "GET" | "HEAD":
            if request.switch("watch"):
                return "watch"
            return "get" if object_path.name else "list"
        case "POST":
            return "create"
        case "PATCH":
            return "patch"
        case "DELETE" if object_path.name:
            return "delete"
    raise ApiError(405, "the server does not allow this method on the requested resource")


class Objects:
    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def handle(
        self, request: ApiRequest, resource: Resource, object_path: ObjectPath
    ) -> Answer | Stream:
        verb = verb_of(request, object_path)
        if verb == "watch":
            return self._watch(request, resource, object_path)
        does: dict[str, Callable[[ApiRequest, Resource, ObjectPath], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "patch": self._patch,
            "delete": self._delete,
        }
        return does[verb](request, resource, object_path)

    def _get(self, _: ApiRequest, resource: Resource, object_path: ObjectPath) -> Answer:
        found = self._store.get(resource, object_path.namespace, object_path.name)
        return Answer(resource.to_wire(found))

    def _list(self, request: ApiRequest, resource: Resource, object_path: ObjectPath) -> Answer:
        wanted = _wanted(request, object_path)
        with self._store.changed:
            version = self._store.version
            found = [
                each for each in self._store.items(resource, object_path.namespace) if wanted(each)
            ]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        limit = int(request.option("limit") or 0)
        if said := request.option("continue"):
            start = self._start(said)
            found = [each for each in found if _key(each) > start]
        if limit and len(found) > limit:
            rest = len(found) - limit
            found = found[:limit]
            token = base64.urlsafe_b64encode(json.dumps([version, *_key(found[-1])]).encode())
            metadata |= {"continue": token.decode(), "remainingItemCount": rest}
        return Answer(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": metadata,
                "items": found,
            }
        )

    def _start(self, token: str) -> tuple[str, str]:
        """Returns the key after which a list continues. Raises ApiError (410) if it is too old."""
        try:
            version, namespace, name = json.loads(base64.urlsafe_b64decode(token))
        except ValueError:
            raise bad_request("continue key is not valid") from None
        try:
            self._store.changes(version)
        except ApiError:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result."
            ) from None
        return namespace, name

    def _watch(self, request: ApiRequest, resource: Resource, object_path: ObjectPath) -> Stream:
        wanted = _wanted(request, object_path)
        watch = Watch(
            self._store,
            resource,
            object_path.namespace,
            wanted,
            bookmarks=request.switch("allowWatchBookmarks"),
            timeout=float(request.option("timeoutSeconds") or 0),
        )
        asked = request.option("resourceVersion")
        with self._store.changed:
            version, initial = self._store.version, None
            if asked in ("", "0") or request.switch("sendInitialEvents"):
                initial = [
                    x for x in self._store.items(resource, object_path.namespace) if wanted(x)
                ]
            else:
                version = int(asked)
        return Stream(watch.lines(version, initial))

    def _create(self, request: ApiRequest, resource: Resource, object_path: ObjectPath) -> Answer:
        sent = request.object()
        found = self._admission.new(
            resource, sent, object_path.namespace, request.option("fieldValidation")
        )
        if not request.option("dryRun"):
            found = self._store.create(resource, found)
        return Answer(resource.to_wire(found), 201)

    def _patch(self, request: ApiRequest, resource: Resource, object_path: ObjectPath) -> Answer:
        form = request.headers.get("content-type", "").partition(";")[0]
        patch = request.json()
        before = self._store.find(resource, object_path.namespace, object_path.name)
        if before is None and form == APPLY:
            new = {**patch, "metadata": {**patch.get("metadata", {}), "name": object_path.name}}
            found = self._admission.new(resource, new, object_path.namespace, "Strict")
            return Answer(resource.to_wire(self._store.create(resource, found)), 201)
        for last in (*[False] * _TRIES, True):
            before = self._store.get(resource, object_path.namespace, object_path.name)
            sent = patched(resource.to_wire(before), patch, form, resource)
            try:
                return self._write(request, resource, object_path, sent)
            except ApiError as error:
                if (
                    error.code != 409
                    or last
                    or sent["metadata"]["resourceVersion"]
                    != (before["metadata"]["resourceVersion"])
                ):
                    raise
        raise AssertionError

    def _write(
        self, request: ApiRequest, resource: Resource, object_path: ObjectPath, sent: Object
    ) -> Answer:
        before = self._store.get(resource, object_path.namespace, object_path.name)
        version = sent.get("metadata", {}).get("resourceVersion")
        if version and version != before["metadata"]["resourceVersion"]:
            raise conflict(resource, object_path.name)
        checks = request.option("fieldValidation")
        found = self._admission.changed(
            resource, before, sent, checks, object_path.subresource, request.identity
        )
        if not request.option("dryRun"):
            found = self._store.replace(resource, found)
        return Answer(resource.to_wire(found))

    def _delete(self, request: ApiRequest, resource: Resource, object_path: ObjectPath) -> Answer:
        options = options_of(request)
        with self._store.changed:
            found = self._store.get(resource, object_path.namespace, object_path.name)
            left = delete(self._store, resource, found, options)
        if left is not None:
            return Answer(resource.to_wire(left))
        details = {
            "name": object_path.name,
            "kind": resource.plural,
            "uid": found["metadata"]["uid"],
        }
        if resource.group:
            details["group"] = resource.group
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer({**status, "details": details})


def _wanted(request: ApiRequest, object_path: ObjectPath) -> Callable[[Object], bool]:
    labels, fields = (
        by_labels(request.option("labelSelector")),
        by_fields(request.option("fieldSelector")),
    )
    name = object_path.name
    return lambda found: (
        (not name or found["metadata"]["name"] == name)
        and labels(found["metadata"].get("labels") or {})
        and fields(found)
    )


def _key(found: Object) -> tuple[str, str]:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]
