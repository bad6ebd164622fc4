"""Decoding, defaults and checks of objects before they are written."""

from __future__ import annotations

import copy
import secrets
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api import policies, schemas, validation
from fairway_simulator.kubernetes.api.requests import bad_request, invalid, not_found
from fairway_simulator.kubernetes.api.resources import NAMESPACES, Resource
from fairway_simulator.kubernetes.events import new_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.kubernetes.api.requests import Identity
    from fairway_simulator.kubernetes.api.store import Object, Store


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words occur


def suffix() -> str:
    """Returns the random end of a generated name, five letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def complete(resource: Resource, found: Object) -> None:
    """Adds those defaults of the object's kind that the stand-in depends on."""
    what = {
        "jobs": _job,
        "pods": _pod,
        "deployments": _deployment,
        "persistentvolumeclaims": _claim,
        "namespaces": _namespace,
    }.get(resource.plural)
    if what is not None and isinstance(found.get("spec", {}), dict):
        what(found)


def _job(job: Object) -> None:
    spec, metadata = job.setdefault("spec", {}), job["metadata"]
    completions = spec.get("completions")
    if completions is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    # With a limit per index there is no total limit.
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed")
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    uid = metadata.get("uid")
    if uid and not spec["manualSelector"]:
        controller = {"batch.kubernetes.io/controller-uid": uid}
        labels |= {**controller, "controller-uid": uid}
        labels |= {
            "batch.kubernetes.io/job-name": metadata.get("name", ""),
            "job-name": metadata.get("name", ""),
        }
        spec.setdefault("selector", {"matchLabels": controller})
    _pod_spec(template.setdefault("spec", {}))


def _deployment(deployment: Object) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _pod(pod: Object) -> None:
    _pod_spec(pod.setdefault("spec", {}))
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")


def _claim(claim: Object) -> None:
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _namespace(namespace: Object) -> None:
    name = namespace["metadata"].get("name", "")
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _pod_spec(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    for container in spec.get("containers") or ():
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
    "generation",
)


class Admission:
    """The admission of objects before they are stored; `mutators` may change new ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.mutators: list[Callable[[Resource, Object], None]] = []

    def new(self, resource: Resource, sent: Object, namespace: str, validation_: str) -> Object:
        found = copy.deepcopy(decoded(resource, sent, validation_))
        metadata = found.setdefault("metadata", {})
        if resource.namespaced:
            said = metadata.setdefault("namespace", namespace)
            if said != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
            if self._store.find(NAMESPACES, "", namespace) is None:
                raise not_found(NAMESPACES, namespace)
        metadata |= {**new_metadata(), "generation": 1}
        for field in ("resourceVersion", "deletionTimestamp", "selfLink", "managedFields"):
            metadata.pop(field, None)
        if resource.status and resource.plural not in ("nodes", "persistentvolumes"):
            found.pop("status", None)
        for mutate in self.mutators:
            mutate(resource, found)
        complete(resource, found)
        if causes := list(validation.causes(resource, found)):
            raise invalid(resource, metadata.get("name", ""), causes)
        policies.require_policies(self._store, resource, found)
        policies.require_quota(self._store, resource, found)
        return found

    def changed(
        self,
        resource: Resource,
        before: Object,
        sent: Object,
        validation_: str,
        part: str,
        by: Identity,
    ) -> Object:
        """Returns the new version of an object; `part` is `status` if only that is written."""
        sent = copy.deepcopy(decoded(resource, sent, validation_))
        metadata, old = sent.setdefault("metadata", {}), before["metadata"]
        if metadata.get("uid", old["uid"]) != old["uid"]:
            raise validation.other_object(resource, old, metadata["uid"])
        version = metadata.get("resourceVersion") or old["resourceVersion"]
        if part == "status":
            found = {**before, "status": sent.get("status", {}), "metadata": {**old}}
            if resource.plural in ("pods", "nodes"):  # their labels may be written too
                found["metadata"] |= {k: v for k, v in metadata.items() if k in _MARKS}
        else:
            kept = {name: old[name] for name in _KEPT if name in old}
            found = {**sent, "metadata": {**metadata, **kept}}
            found["metadata"].pop("managedFields", None)
            if resource.status:
                found.pop("status", None)
                found |= {"status": before["status"]} if "status" in before else {}
            complete(resource, found)
            causes = [*validation.causes(resource, found)]
            causes += validation.immutable(resource, before, found)
            if causes:
                raise invalid(resource, old["name"], causes)
            if found.get("spec") != before.get("spec"):
                found["metadata"]["generation"] = old.get("generation", 1) + 1
        found["metadata"]["resourceVersion"] = version
        policies.require_change(self._store, resource, before, found, part, by)
        return found


_MARKS = ("labels", "annotations", "finalizers")


def decoded(resource: Resource, sent: Object, validation_: str) -> Object:
    """Returns an object as it was sent, without fields that its schema does not know.

    Unless the request sets the field validation, it is strict: the real server would only warn,
    which no test would see.
    """
    kind, version = sent.get("kind"), sent.get("apiVersion")
    if kind and (kind != resource.kind or version != resource.api_version):
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if not resource.schema:
        return sent
    schema = schemas.definitions()[resource.schema]
    start = f'{resource.kind} in version "{resource.version}" cannot be handled as a '
    start += f"{resource.kind}: "
    for path, found, expected in schemas.wrong_types(sent, schema):
        field = schemas.spelled(path)
        raise bad_request(
            f"{start}json: cannot unmarshal {found} into Go struct field {field} of type {expected}"
        )
    unknown = list(schemas.unknown_fields(sent, schema))
    if unknown and validation_ in ("", "Strict"):
        said = ", ".join(f'unknown field "{schemas.spelled(path)}"' for path in unknown)
        raise bad_request(f"{start}strict decoding error: {said}")
    return _without(sent, unknown) if unknown else sent


def _without(sent: Object, paths: list[schemas.Path]) -> Object:
    sent = copy.deepcopy(sent)
    for path in paths:
        holder: Any = sent
        for part in path[:-1]:
            holder = holder[part]
        del holder[path[-1]]
    return sent
