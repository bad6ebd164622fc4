"""Contents of a namespace: service accounts, whose tokens pods get, and storage claims.

Each claim is bound to the volume that it names, or to a new folder. Unlike the real controller,
this one never searches for a volume that suits a claim, so that a claim without a volume must name
a class, or leave that to the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.admission import suffix
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import (
    CLAIMS,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    VOLUMES,
    Resource,
)
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import Recorder, new_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_simulator.kubernetes.api.store import Change, Object, Store


class Claims(Controller):
    """The controller that binds claims to volumes; new volumes are folders below `folder`."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._recorder = Recorder(store, "persistentvolume-controller")

    def concerned(self, change: Change) -> Iterator[str]:
        metadata = change.found["metadata"]
        if change.resource is CLAIMS:
            yield f"{metadata['namespace']}/{metadata['name']}"
        elif change.resource is VOLUMES and change.kind == "ADDED":
            for claim in self._store.items(CLAIMS):
                yield f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"

    def reconcile(self, key: str) -> None:
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
        named = claim["spec"].get("volumeName")
        if named:
            volume = self._store.find(VOLUMES, "", named)
            if volume is None:
                return None  # the claim waits for that volume
            if why := _unfit(volume, claim):
                said = f'Cannot bind to requested volume "{named}": {why}'
                self._recorder.record(CLAIMS, claim, "VolumeMismatch", said, bad=True)
                return None
            return volume
        # Without a class no volume is created: the claim waits forever.
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
        """Releases a deleted claim's volume, which keeps its data and takes no other claim."""
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
    """Returns why a volume does not suit a claim, or ""."""
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


_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
# Priorities of the classes that every cluster has; the stand-in has no others.
_LEVELS = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Accounts(Controller):
    """The controller that creates each namespace's default objects, and completes new pods."""

    def __init__(self, store: Store, authority: str) -> None:
        self._store = store
        self._authority = authority

    def concerned(self, change: Change) -> Iterator[str]:
        if change.resource is NAMESPACES:
            yield change.found["metadata"]["name"]

    def reconcile(self, key: str) -> None:
        with self._store.changed:
            known = self._store.find(NAMESPACES, "", key)
            if known is None or known["status"].get("phase") != "Active":
                return
            if self._store.find(SERVICE_ACCOUNTS, key, "default") is None:
                self._store.create(SERVICE_ACCOUNTS, _new(key, "default"))
            if self._store.find(CONFIG_MAPS, key, "kube-root-ca.crt") is None:
                data = {"data": {"ca.crt": self._authority}}
                self._store.create(CONFIG_MAPS, {**_new(key, "kube-root-ca.crt"), **data})

    def complete(self, resource: Resource, pod: Object) -> None:
        """Adds token and priority to a new pod. Raises ApiError (403) for unknown names."""
        if resource is not PODS:
            return
        spec, metadata = pod.setdefault("spec", {}), pod["metadata"]
        if level := spec.get("priorityClassName"):
            if level not in _LEVELS:
                raise _forbidden(pod, f"no PriorityClass with name {level} was found")
            spec["priority"] = _LEVELS[level]
        name = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = name
        account = self._store.find(SERVICE_ACCOUNTS, metadata["namespace"], name)
        if account is None:
            why = f"error looking up service account {metadata['namespace']}/{name}: "
            why += f'serviceaccount "{name}" not found'
            raise _forbidden(pod, why)
        mounted = spec.get(
            "automountServiceAccountToken", account.get("automountServiceAccountToken", True)
        )
        if mounted:
            _mount_token(spec)


def _forbidden(pod: Object, why: str) -> ApiError:
    return ApiError(403, f'pods "{pod["metadata"].get("name", "")}" is forbidden: {why}')


def _mount_token(spec: Object) -> None:
    volume = f"kube-api-access-{suffix()}"
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    projected = {"sources": sources, "defaultMode": 0o644}
    spec.setdefault("volumes", []).append({"name": volume, "projected": projected})
    for container in spec.get("containers") or ():
        mounts = container.setdefault("volumeMounts", [])
        if all(each["mountPath"] != _FOLDER for each in mounts):
            mounts.append({"name": volume, "mountPath": _FOLDER, "readOnly": True})


def _new(namespace: str, name: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **new_metadata()}}
