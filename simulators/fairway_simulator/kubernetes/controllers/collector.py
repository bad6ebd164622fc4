"""The garbage collector: deletes objects without their owner, and completes foreground deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.api import objects
from fairway_simulator.kubernetes.api.resources import JOBS, NAMESPACES, PODS, Resource
from fairway_simulator.kubernetes.controllers.loop import Controller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_ALL = "all"
_BACKGROUND = objects.Options(propagation="Background")


class Collector(Controller):
    """The collector of these resources."""

    def __init__(self, store: Store, resources: Sequence[Resource]) -> None:
        self._store = store
        self._resources = resources
        self._by_kind = {(each.api_version, each.kind): each for each in resources}

    def concerned(self, change: Change) -> Iterator[str]:
        """Yields a key if an object is being deleted or has gone, or a new one has owners."""
        metadata = change.found["metadata"]
        going = change.kind == "DELETED" or "deletionTimestamp" in metadata
        if going or (change.kind == "ADDED" and metadata.get("ownerReferences")):
            yield _ALL

    def reconcile(self, _: str) -> None:
        with self._store.changed:
            owned: dict[str, list[tuple[Resource, Object]]] = {}
            for resource in self._resources:
                for found in self._store.items(resource):
                    for owner in found["metadata"].get("ownerReferences") or ():
                        owned.setdefault(owner["uid"], []).append((resource, found))
                        self._require_owner(resource, found, owner)
            for resource in self._resources:
                for found in self._store.items(resource):
                    if "deletionTimestamp" in found["metadata"]:
                        self._let_go(resource, found, owned.get(found["metadata"]["uid"], []))
            self._empty_namespaces()
            self._lose_pods()

    def _require_owner(self, resource: Resource, found: Object, owner: Object) -> None:
        kind = self._by_kind.get((owner["apiVersion"], owner["kind"]))
        if kind is None:
            return
        namespace = found["metadata"].get("namespace", "") if kind.namespaced else ""
        known = self._store.find(kind, namespace, owner["name"])
        if known is None or known["metadata"]["uid"] != owner["uid"]:
            self._delete(resource, found)

    def _let_go(
        self, resource: Resource, owner: Object, owned: Sequence[tuple[Resource, Object]]
    ) -> None:
        if objects.FOREGROUND not in (owner["metadata"].get("finalizers") or ()):
            return
        for kind, found in owned:
            self._delete(kind, found)
        if not any(self._still(kind, found) for kind, found in owned):
            kept = [e for e in owner["metadata"]["finalizers"] if e != objects.FOREGROUND]
            metadata = objects.with_finalizers(owner["metadata"], kept)
            self._store.replace(resource, {**owner, "metadata": metadata})

    def _still(self, resource: Resource, found: Object) -> bool:
        metadata = found["metadata"]
        known = self._store.find(resource, metadata.get("namespace", ""), metadata["name"])
        return known is not None and known["metadata"]["uid"] == metadata["uid"]

    def _delete(self, resource: Resource, found: Object) -> None:
        metadata = found["metadata"]
        still = self._store.find(resource, metadata.get("namespace", ""), metadata["name"])
        if still is None or "deletionTimestamp" in still["metadata"]:
            return
        options = _BACKGROUND if resource is not JOBS else objects.Options()
        objects.delete(self._store, resource, still, options)

    def _empty_namespaces(self) -> None:
        for namespace in self._store.items(NAMESPACES):
            if namespace["status"].get("phase") == "Terminating":
                name = namespace["metadata"]["name"]
                left = [
                    (resource, found)
                    for resource in self._resources
                    if resource.namespaced
                    for found in self._store.items(resource, name)
                ]
                for resource, found in left:
                    self._delete(resource, found)
                if not any(self._still(resource, found) for resource, found in left):
                    self._store.remove(NAMESPACES, namespace)

    def _lose_pods(self) -> None:
        """Fails and removes pods that are deleted before they have a node."""
        for pod in self._store.items(PODS):
            if not pod["spec"].get("nodeName") and "deletionTimestamp" in pod["metadata"]:
                failed = {**pod, "status": {**pod["status"], "phase": "Failed"}}
                objects.delete(
                    self._store, PODS, self._store.replace(PODS, failed), objects.Options(grace=0)
                )
