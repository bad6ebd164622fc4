"""Jobs, run as by the real controller (1.36.2): pods by index, and the effects of their ends; and
Deployments: `replicas` pods of the newest template, which the real one makes with ReplicaSets."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api import objects
from fairway_simulator.kubernetes.api.admission import suffix
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import DEPLOYMENTS, JOBS, PODS
from fairway_simulator.kubernetes.controllers.job_state import (
    INDEX,
    TRACKED,
    JobState,
    is_ended,
    is_indexed,
)
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import Recorder, is_true, now, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_simulator.kubernetes.api.admission import Admission
    from fairway_simulator.kubernetes.api.store import Change, Object, Store


BACKOFF = 10.0
"""Seconds before the real controller replaces a failed pod; doubled with each failure."""
_LONGEST_BACKOFF = 600.0


class Jobs(Controller):
    """The controller of Jobs; `backoff` is the time in seconds before it replaces a failed pod."""

    def __init__(self, store: Store, admission: Admission, backoff: float = BACKOFF) -> None:
        self._store = store
        self._admission = admission
        self._backoff = backoff
        self._recorder = Recorder(store, "job-controller")
        self._again: dict[str, float] = {}
        self._failed: dict[str, float] = {}
        """The uids of Jobs with failed pods, and the monotonic time of the last failure."""

    def concerned(self, change: Change) -> Iterator[str]:
        metadata = change.found["metadata"]
        if change.resource is JOBS:
            yield f"{metadata['namespace']}/{metadata['name']}"
        elif change.resource is PODS:
            for owner in metadata.get("ownerReferences") or ():
                if owner["kind"] == "Job":
                    yield f"{metadata['namespace']}/{owner['name']}"

    def due(self) -> Iterable[str]:
        passed = [key for key, when in self._again.items() if when <= time.monotonic()]
        for key in passed:
            del self._again[key]
        return passed

    def reconcile(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        with self._store.changed:
            job = self._store.find(JOBS, namespace, name)
            if job is None:
                return
            pods = list(self._store.owned(PODS, job))
            if "deletionTimestamp" in job["metadata"]:
                self._release(pods)
                return
            if is_true(job, "Complete") or is_true(job, "Failed"):
                self._failed.pop(job["metadata"]["uid"], None)
                self._release([pod for pod in pods if is_ended(pod)])
                return
            self._sync(key, job, pods)

    def _sync(self, key: str, job: Object, pods: list[Object]) -> None:
        state = JobState(job, pods)
        status, failed = state.status, state.status.get("failed", 0)
        if "startTime" not in status and not job["spec"]["suspend"]:
            status["startTime"] = now()
        counted = state.count()
        if status.get("failed", 0) > failed:
            self._failed[job["metadata"]["uid"]] = time.monotonic()
        state.decide()
        if state.is_decided:
            self._end([pod for pod in pods if not is_ended(pod)])
        elif job["spec"]["suspend"]:
            if state.suspend():
                self._recorder.record(JOBS, job, "Suspended", "Job suspended")
            self._take_back([pod for pod in pods if not is_ended(pod)])
        else:
            if state.resume():
                self._recorder.record(JOBS, job, "Resumed", "Job resumed")
            self._make(key, job, state)
        state.finish()
        self._store.set_status(JOBS, job, state.wire())
        self._release(counted)
        for kind, event, bad in (("Complete", "Completed", False), ("Failed", "", True)):
            for each in state.status.get("conditions") or ():
                if each["type"] == kind and each["status"] == "True":
                    reason = event or each.get("reason", kind)
                    self._recorder.record(
                        JOBS, job, reason, each.get("message") or "Job completed", bad=bad
                    )

    def _make(self, key: str, job: Object, state: JobState) -> None:
        """Creates pods for the indexes without one, as many as may run at once."""
        if (wait := self._left_to_wait(state)) > 0:
            self._call_again(key, wait)
            return
        for index in [*state.missing()][: max(0, state.room())]:
            new, space = _pod(job, index), job["metadata"]["namespace"]
            try:
                pod = self._admission.new(PODS, new, space, "Ignore")
            except ApiError as refused:
                said = f"Error creating: {refused.message}"
                self._recorder.record(JOBS, job, "FailedCreate", said, bad=True)
                self._call_again(key, self._backoff)
                return
            pod = self._store.create(PODS, pod)
            name = pod["metadata"]["name"]
            self._recorder.record(JOBS, job, "SuccessfulCreate", f"Created pod: {name}")
            state.added(pod)

    def _left_to_wait(self, state: JobState) -> float:
        """Returns the remaining backoff in seconds; 0 with a limit per index: no retries."""
        failures = state.status.get("failed", 0)
        if not failures or state.spec.get("backoffLimitPerIndex") is not None:
            return 0.0
        wait: float = min(_LONGEST_BACKOFF, self._backoff * 2.0 ** (failures - 1))
        return wait - (time.monotonic() - self._failed[state.job["metadata"]["uid"]])

    def _take_back(self, pods: Iterable[Object]) -> None:
        """Ends the pods of a suspended Job without counting them. Source: `deleteJobPods`."""
        self._end(
            [self._released(pod) for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        )

    def _end(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                if not pod["spec"].get("nodeName"):
                    pod = self._released(pod)
                objects.delete(self._store, PODS, pod, objects.Options())

    def _release(self, pods: Iterable[Object]) -> None:
        """Removes the tracking finalizer of pods, so that they can be removed."""
        for pod in [*pods]:
            self._released(pod)

    def _released(self, pod: Object) -> Object:
        metadata = pod["metadata"]
        still = self._store.find(PODS, metadata["namespace"], metadata["name"])
        if still is None or TRACKED not in (still["metadata"].get("finalizers") or ()):
            return still or pod
        kept = [each for each in still["metadata"]["finalizers"] if each != TRACKED]
        changed = objects.with_finalizers(still["metadata"], kept)
        return self._store.replace(PODS, {**still, "metadata": changed})

    def _call_again(self, key: str, seconds: float) -> None:
        when = time.monotonic() + seconds
        self._again[key] = min(when, self._again.get(key, when))


def _pod(job: Object, index: int) -> Object:
    template = copy.deepcopy(job["spec"]["template"])
    metadata: dict[str, Any] = template.setdefault("metadata", {})
    name = job["metadata"]["name"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKED]
    metadata["ownerReferences"] = [JOBS.as_owner(job)]
    metadata["name"] = f"{name}-{suffix()}"
    if not is_indexed(job):
        return {"metadata": metadata, "spec": template["spec"]}
    metadata["name"] = f"{name[:200]}-{index}-{suffix()}"
    metadata.setdefault("labels", {})[INDEX] = str(index)
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    template["spec"].setdefault("hostname", f"{name}-{index}")
    field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}}
    for container in template["spec"]["containers"]:
        known = container.setdefault("env", [])
        if all(each["name"] != variable["name"] for each in known):
            known.append(variable)
    return {"metadata": metadata, "spec": template["spec"]}


_HASH = "pod-template-hash"


class Deployments(Controller):
    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def concerned(self, change: Change) -> Iterator[str]:
        if change.resource in (DEPLOYMENTS, PODS):
            yield change.found["metadata"]["namespace"]

    def reconcile(self, key: str) -> None:
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
