"""Claims of storage: each is bound to the volume that it names, or to a new folder.

Nothing is found for a claim by its size alone: where the real controller would look for a volume
that suits, one that names none has to name a class, or leave that to the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.resources import CLAIMS, VOLUMES
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import Recorder, new_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_simulator.kubernetes.api.store import Change, Object, Store


class Claims(Controller):
    """Binds claims to volumes; new ones are folders below `folder`."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._recorder = Recorder(store, "persistentvolume-controller")

    def concerned(self, change: Change) -> Iterator[str]:
        """A claim, or all of them when there is another volume."""
        metadata = change.found["metadata"]
        if change.resource is CLAIMS:
            yield f"{metadata['namespace']}/{metadata['name']}"
        elif change.resource is VOLUMES and change.kind == "ADDED":
            for claim in self._store.items(CLAIMS):
                yield f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"

    def reconcile(self, key: str) -> None:
        """Binds a claim that is not bound."""
        namespace, _, name = key.partition("/")
        with self._store.changed:
            claim = self._store.find(CLAIMS, namespace, name)
            if claim is None:
                self._release(namespace, name)
                return
            if claim["status"].get("phase") == "Bound":
                return
            volume = self._volume_of(claim)
            if volume is None:
                return
            spec = {**volume["spec"], "claimRef": _reference(claim)}
            self._store.replace(VOLUMES, {**volume, "spec": spec, "status": {"phase": "Bound"}})
            status = {
                "phase": "Bound",
                "accessModes": volume["spec"]["accessModes"],
                "capacity": volume["spec"]["capacity"],
            }
            bound = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
            self._store.replace(CLAIMS, {**claim, "spec": bound, "status": status})

    def _volume_of(self, claim: Object) -> Object | None:
        """The volume to which a claim may be bound, if there is one."""
        named = claim["spec"].get("volumeName")
        if named:
            volume = self._store.find(VOLUMES, "", named)
            if volume is None:
                return None  # it waits for that volume
            if why := _unfit(volume, claim):
                said = f'Cannot bind to requested volume "{named}": {why}'
                self._recorder.record(CLAIMS, claim, "VolumeMismatch", said, bad=True)
                return None
            return volume
        # Nothing is made without a class: the claim waits for ever.
        return None if claim["spec"].get("storageClassName") == "" else self._make(claim)

    def _make(self, claim: Object) -> Object:
        metadata = claim["metadata"]
        folder = self._folder / metadata["namespace"] / metadata["name"]
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "hostPath": {"path": str(folder)},
            "claimRef": _reference(claim),
        }
        about = {"name": f"pvc-{metadata['uid']}", **new_metadata()}
        made = {"metadata": about, "spec": spec, "status": {"phase": "Available"}}
        return self._store.create(VOLUMES, made)

    def _release(self, namespace: str, name: str) -> None:
        """A volume whose claim is gone keeps its data, and is nobody's until somebody says so."""
        for volume in self._store.items(VOLUMES):
            claim = volume["spec"].get("claimRef") or {}
            mine = (claim.get("namespace"), claim.get("name")) == (namespace, name)
            if mine and (volume.get("status") or {}).get("phase") == "Bound":
                self._store.replace(VOLUMES, {**volume, "status": {"phase": "Released"}})


def _reference(claim: Object) -> dict[str, Any]:
    metadata = claim["metadata"]
    about = {name: metadata[name] for name in ("namespace", "name", "uid")}
    return {"kind": CLAIMS.kind, "apiVersion": CLAIMS.api_version, **about}


def _unfit(volume: Object, claim: Object) -> str:
    """Why a volume is not for a claim; "" where it is."""
    given, wanted = volume["spec"], claim["spec"]
    reference, mine = given.get("claimRef") or {}, _reference(claim)
    if any(mine[name] != reference.get(name, mine[name]) for name in ("namespace", "name", "uid")):
        return "volume already bound to a different claim."
    if given.get("storageClassName", "") != (wanted.get("storageClassName") or ""):
        return "storageClassName does not match"
    if not set(wanted["accessModes"]) <= set(given["accessModes"]):
        return "incompatible accessMode"
    asked = wanted["resources"]["requests"]["storage"]
    if parse(given["capacity"]["storage"]) < parse(asked):
        return "requested PV is too small"
    return ""
