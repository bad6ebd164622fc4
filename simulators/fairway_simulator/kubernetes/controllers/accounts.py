"""Service accounts: each namespace has one, and pods get the token of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.admission import suffix
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import new_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
# Of the classes that every cluster has: there are no others here.
_LEVELS = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Accounts(Controller):
    """Makes what each namespace has, and completes pods as they are created."""

    def __init__(self, store: Store, authority: str) -> None:
        self._store = store
        self._authority = authority

    def concerned(self, change: Change) -> Iterator[str]:
        """A namespace."""
        if change.resource is NAMESPACES:
            yield change.found["metadata"]["name"]

    def reconcile(self, key: str) -> None:
        """Adds what the namespace lacks."""
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
        """Gives a new pod its account's token and its priority; 403 where there is no such."""
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
