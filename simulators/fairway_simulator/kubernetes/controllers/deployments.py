"""Deployments, by way of their ReplicaSets: `replicas` pods of the newest template."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.api import objects
from fairway_simulator.kubernetes.api.admission import suffix
from fairway_simulator.kubernetes.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from fairway_simulator.kubernetes.conditions import is_true, with_condition
from fairway_simulator.kubernetes.controllers.job_state import is_ended
from fairway_simulator.kubernetes.controllers.loop import Controller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.admission import Admission
    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_HASH = "pod-template-hash"


class Deployments(Controller):
    """Both controllers: that of Deployments, and that of ReplicaSets."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def concerned(self, change: Change) -> Iterator[str]:
        """The namespace in which something changed that they see to."""
        if change.resource in (DEPLOYMENTS, REPLICA_SETS, PODS):
            yield change.found["metadata"]["namespace"]

    def reconcile(self, key: str) -> None:
        """Looks at all of a namespace."""
        with self._store.changed:
            for deployment in self._store.items(DEPLOYMENTS, key):
                if "deletionTimestamp" not in deployment["metadata"]:
                    self._deploy(deployment)
            for replica_set in self._store.items(REPLICA_SETS, key):
                if "deletionTimestamp" not in replica_set["metadata"]:
                    self._replicate(replica_set)

    def _deploy(self, deployment: Object) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        text = json.dumps(spec["template"], sort_keys=True)
        mark = hashlib.sha256(text.encode()).hexdigest()[:10]
        name = f"{metadata['name']}-{mark}"
        sets = list(self._store.owned(REPLICA_SETS, deployment))
        for old in sets:
            wanted = spec["replicas"] if old["metadata"]["name"] == name else 0
            if old["spec"]["replicas"] != wanted:
                old_spec = {**old["spec"], "replicas": wanted}
                self._store.replace(REPLICA_SETS, {**old, "spec": old_spec})
        if all(old["metadata"]["name"] != name for old in sets):
            self._make_set(deployment, name, mark)
        newest = self._store.find(REPLICA_SETS, metadata["namespace"], name) or {}
        ready = newest.get("status", {}).get("readyReplicas", 0)
        count = newest.get("status", {}).get("replicas", 0)
        status = {
            **deployment.get("status", {}),
            "observedGeneration": metadata.get("generation", 1),
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, spec["replicas"] - ready),
        }
        enough = ready >= spec["replicas"]
        reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        status = with_condition(status, "Available", reason, holds=enough)
        self._store.set_status(DEPLOYMENTS, deployment, status)

    def _make_set(self, deployment: Object, name: str, mark: str) -> None:
        template = copy.deepcopy(deployment["spec"]["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[_HASH] = mark
        matched = deployment["spec"]["selector"].get("matchLabels") or {}
        new = {
            "metadata": {
                "name": name,
                "labels": dict(labels),
                "ownerReferences": [DEPLOYMENTS.as_owner(deployment)],
            },
            "spec": {
                "replicas": deployment["spec"]["replicas"],
                "selector": {"matchLabels": {**matched, _HASH: mark}},
                "template": template,
            },
        }
        namespace = deployment["metadata"]["namespace"]
        found = self._admission.new(REPLICA_SETS, new, namespace, "Ignore")
        self._store.create(REPLICA_SETS, found)

    def _replicate(self, replica_set: Object) -> None:
        pods = [
            pod
            for pod in self._store.owned(PODS, replica_set)
            if "deletionTimestamp" not in pod["metadata"] and not is_ended(pod)
        ]
        wanted = replica_set["spec"]["replicas"]
        for pod in pods[wanted:]:
            objects.delete(self._store, PODS, pod, objects.Options())
        for _ in range(wanted - len(pods)):
            self._make_pod(replica_set)
        ready = sum(1 for pod in pods if is_true(pod, "Ready"))
        status = {"replicas": wanted, "readyReplicas": ready, "availableReplicas": ready}
        self._store.set_status(REPLICA_SETS, replica_set, status)

    def _make_pod(self, replica_set: Object) -> None:
        template = copy.deepcopy(replica_set["spec"]["template"])
        name = f"{replica_set['metadata']['name']}-{suffix()}"
        metadata = {**template.get("metadata", {}), "name": name}
        metadata["ownerReferences"] = [REPLICA_SETS.as_owner(replica_set)]
        new = {"metadata": metadata, "spec": template["spec"]}
        namespace = replica_set["metadata"]["namespace"]
        self._store.create(PODS, self._admission.new(PODS, new, namespace, "Ignore"))
