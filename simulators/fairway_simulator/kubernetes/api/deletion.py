"""Deleting: with grace for pods, with finalizers for what is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.errors import ApiError, conflict
from fairway_simulator.kubernetes.api.resources import NAMESPACES, PODS
from fairway_simulator.kubernetes.conditions import now

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.api.requests import ApiRequest
    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object, Store

FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True)
class Options:
    """How something is deleted."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""


def options_of(request: ApiRequest) -> Options:
    """What a request says, in its body or its query."""
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
        version=conditions.get("resourceVersion") or "",
    )


def delete(store: Store, resource: Resource, found: Object, options: Options) -> Object | None:
    """Deletes, or marks as being deleted what is still waited for; None where it is gone."""
    metadata = found["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        # See rest.BeforeDelete in k8s.io/apiserver.
        raise conflict(
            resource,
            metadata["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    if options.version and options.version != metadata["resourceVersion"]:
        raise conflict(resource, metadata["name"])
    if resource is NAMESPACES:
        return _terminating(store, found)
    grace = _grace(found, options) if resource is PODS else 0
    finalizers = _finalizers(metadata.get("finalizers") or [], options.propagation)
    marked = {**metadata, "finalizers": finalizers}
    if not finalizers:
        del marked["finalizers"]
    left = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or (left is not None and grace < left):
        marked |= {"deletionTimestamp": now(grace), "deletionGracePeriodSeconds": grace}
    if not finalizers and not grace:
        store.remove(resource, {**found, "metadata": marked})
        return None
    return store.replace(resource, {**found, "metadata": marked})


def _terminating(store: Store, namespace: Object) -> Object:
    """A namespace that is emptied before it goes."""
    status = {**namespace["status"], "phase": "Terminating"}
    metadata = {"deletionTimestamp": now(), **namespace["metadata"]}
    kept = {"deletionGracePeriodSeconds": 1, **metadata}  # so that it is not over at once
    return store.replace(NAMESPACES, {**namespace, "metadata": kept, "status": status})


def _grace(pod: Object, options: Options) -> int:
    """Seconds that a pod has; none where nothing of it runs."""
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
