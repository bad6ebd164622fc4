"""Claims of storage: each gets a folder of this machine as its volume."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.api.resources import CLAIMS, VOLUMES
from fairway_simulator.kubernetes.times import now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_simulator.kubernetes.api.store import Change, Object, Store


class Claims:
    """Binds claims to folders below `folder`, or to the volume that they name."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def concerned(self, change: Change) -> Iterator[str]:
        """A claim, or all of them when there is another volume."""
        metadata = change.found["metadata"]
        if change.resource is CLAIMS:
            yield f"{metadata['namespace']}/{metadata['name']}"
        elif change.resource is VOLUMES and change.kind == "ADDED":
            for claim in self._store.items(CLAIMS):
                yield f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"

    def due(self) -> Iterator[str]:
        """Nothing."""
        return iter(())

    def reconcile(self, key: str) -> None:
        """Binds a claim that is not bound."""
        namespace, _, name = key.partition("/")
        with self._store.changed:
            claim = self._store.find(CLAIMS, namespace, name)
            if claim is None or claim["status"].get("phase") == "Bound":
                return
            asked = claim["spec"].get("volumeName")
            if asked and self._store.find(VOLUMES, "", asked) is None:
                return  # it waits for that volume
            volume = asked or self._make(claim)
            spec = {**claim["spec"], "volumeName": volume}
            modes = claim["spec"].get("accessModes")
            capacity = (claim["spec"].get("resources") or {}).get("requests")
            status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
            self._store.replace(CLAIMS, {**claim, "spec": spec, "status": status})

    def _make(self, claim: Object) -> str:
        metadata = claim["metadata"]
        folder = self._folder / metadata["namespace"] / metadata["name"]
        folder.mkdir(parents=True, exist_ok=True)
        name = f"pvc-{metadata['uid']}"
        spec = {
            "accessModes": claim["spec"].get("accessModes"),
            "capacity": (claim["spec"].get("resources") or {}).get("requests"),
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"]},
        }
        about = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        self._store.create(VOLUMES, {"metadata": about, "spec": spec, "status": {"phase": "Bound"}})
        return name
