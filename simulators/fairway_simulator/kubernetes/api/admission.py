"""What happens to an object before it is written: decoding, defaults, checks."""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api import defaults, policies, quotas, schemas, validation
from fairway_simulator.kubernetes.api.errors import bad_request, invalid, not_found
from fairway_simulator.kubernetes.api.resources import NAMESPACES, Resource
from fairway_simulator.kubernetes.conditions import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.kubernetes.api.requests import Identity
    from fairway_simulator.kubernetes.api.store import Object, Store

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
    """Makes of what was sent what is stored; `mutators` have a say about what is created."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.mutators: list[Callable[[Resource, Object], None]] = []

    def new(self, resource: Resource, sent: Object, namespace: str, validation_: str) -> Object:
        """A new object, as it is stored."""
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
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + defaults.suffix()
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1}
        for field in ("resourceVersion", "deletionTimestamp", "selfLink", "managedFields"):
            metadata.pop(field, None)
        if resource.status and resource.plural not in ("nodes", "persistentvolumes"):
            found.pop("status", None)
        for mutate in self.mutators:
            mutate(resource, found)
        defaults.complete(resource, found)
        if causes := list(validation.causes(resource, found)):
            raise invalid(resource, metadata.get("name", ""), causes)
        policies.require(self._store, resource, found)
        quotas.require(self._store, resource, found)
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
        """An object in place of another; `part` is `status` where only that is written."""
        sent = copy.deepcopy(decoded(resource, sent, validation_))
        metadata, old = sent.setdefault("metadata", {}), before["metadata"]
        if metadata.get("uid", old["uid"]) != old["uid"]:
            raise validation.other_object(resource, old, metadata["uid"])
        version = metadata.get("resourceVersion") or old["resourceVersion"]
        if part == "status":
            found = {**before, "status": sent.get("status", {}), "metadata": {**old}}
            if resource.plural in ("pods", "nodes"):  # their labels may be written with it
                found["metadata"] |= {k: v for k, v in metadata.items() if k in _MARKS}
        else:
            kept = {name: old[name] for name in _KEPT if name in old}
            found = {**sent, "metadata": {**metadata, **kept}}
            found["metadata"].pop("managedFields", None)
            if resource.status:
                found.pop("status", None)
                found |= {"status": before["status"]} if "status" in before else {}
            defaults.complete(resource, found)
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
    """What was sent, with no field that its schema does not know.

    Where the request does not say how fields are checked, they are checked strictly: the real
    server would only warn, which no test would see.
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
