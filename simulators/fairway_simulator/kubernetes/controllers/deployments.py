"""Deployments: `replicas` pods of the newest template.

The real one makes them by way of ReplicaSets, for which nothing here asks.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.api import objects
from fairway_simulator.kubernetes.api.admission import suffix
from fairway_simulator.kubernetes.api.resources import DEPLOYMENTS, PODS
from fairway_simulator.kubernetes.controllers.job_state import is_ended
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import is_true, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.admission import Admission
    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_HASH = "pod-template-hash"


class Deployments(Controller):
    """Their controller."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def concerned(self, change: Change) -> Iterator[str]:
        """The namespace in which something changed that it sees to."""
        if change.resource in (DEPLOYMENTS, PODS):
            yield change.found["metadata"]["namespace"]

    def reconcile(self, key: str) -> None:
        """Looks at all of a namespace."""
        with self._store.changed:
            for deployment in self._store.items(DEPLOYMENTS, key):
                if "deletionTimestamp" not in deployment["metadata"]:
                    self._deploy(deployment)

    def _deploy(self, deployment: Object) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        count = spec["replicas"]
        text = json.dumps(spec["template"], sort_keys=True)
        mark = hashlib.sha256(text.encode()).hexdigest()[:10]
        new: list[Object] = []
        old: list[Object] = []
        for pod in self._store.owned(PODS, deployment):
            if "deletionTimestamp" not in pod["metadata"] and not is_ended(pod):
                (new if pod["metadata"]["labels"][_HASH] == mark else old).append(pod)
        for pod in old + new[count:]:
            objects.delete(self._store, PODS, pod, objects.Options())
        for _ in range(count - len(new)):
            self._make_pod(deployment, mark)
        ready = sum(is_true(pod, "Ready") for pod in new)
        status = {
            **deployment.get("status", {}),
            "observedGeneration": metadata.get("generation", 1),
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, count - ready),
        }
        enough = ready >= count
        reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        status = with_condition(status, "Available", reason, holds=enough)
        self._store.set_status(DEPLOYMENTS, deployment, status)

    def _make_pod(self, deployment: Object, mark: str) -> None:
        template = copy.deepcopy(deployment["spec"]["template"])
        metadata = template.setdefault("metadata", {})
        metadata["name"] = f"{deployment['metadata']['name']}-{mark}-{suffix()}"
        metadata["ownerReferences"] = [DEPLOYMENTS.as_owner(deployment)]
        metadata.setdefault("labels", {})[_HASH] = mark
        new = {"metadata": metadata, "spec": template["spec"]}
        namespace = deployment["metadata"]["namespace"]
        self._store.create(PODS, self._admission.new(PODS, new, namespace, "Ignore"))
