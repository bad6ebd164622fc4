"""Kueue 0.19 as a Job sees it: suspended until there is quota for all its pods; and the admission
check that asks the autoscaler for the nodes of all pods of a workload.

Labels, Workloads and their conditions are the real ones; cohorts, topology, preemption and
evictions are missing. Source of the check: pkg/controller/admissionchecks/provisioning
(controller.go, provisioning.go, admissioncheck_reconciler.go), and
apis/kueue/v1beta2/provisioningrequestconfig_types.go.
"""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.resources import (
    CHECK_CONFIGS,
    CHECKS,
    CLUSTER_QUEUES,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    WORKLOAD_PRIORITIES,
    WORKLOADS,
    Resource,
)
from fairway_simulator.kubernetes.controllers.autoscaler import CONSUMES
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.controllers.quota import (
    Assignment,
    Refusal,
    assign,
    say_who_is_active,
    why_inactive,
)
from fairway_simulator.kubernetes.events import (
    condition_of,
    is_true,
    new_metadata,
    now,
    with_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.store import Change, Object, Store


QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_ALL = "all"


class Kueue(Controller):
    def __init__(self, store: Store) -> None:
        self._store = store

    def suspend(self, resource: Resource, job: Object) -> None:
        """Suspends a new Job with a queue, as the webhook does."""
        if resource is JOBS and _queue(job):
            job.setdefault("spec", {})["suspend"] = True

    def concerned(self, change: Change) -> Iterator[str]:
        kinds = (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS, CHECKS)
        if change.resource in kinds or (change.resource is JOBS and _queue(change.found)):
            yield _ALL

    def reconcile(self, _: str) -> None:
        with self._store.changed:
            for job in self._store.items(JOBS):
                if _queue(job) and "deletionTimestamp" not in job["metadata"]:
                    self._follow(job)
            say_who_is_active(self._store)
            for workload in self._store.items(WORKLOADS):
                self._judge(workload)
            waiting = [each for each in self._store.items(WORKLOADS) if _waits(each)]
            for workload in sorted(waiting, key=_order):
                self._admit(workload)

    def _judge(self, workload: Object) -> None:
        """Admits a workload that has passed all checks."""
        checks = workload["status"].get("admissionChecks") or []
        passed = all(each["state"] == "Ready" for each in checks)
        if passed and is_true(workload, "QuotaReserved") and not is_true(workload, "Admitted"):
            said = "The workload is admitted"
            status = with_condition(workload["status"], "Admitted", "Admitted", said)
            self._store.set_status(WORKLOADS, workload, status)

    def _follow(self, job: Object) -> None:
        """Creates the Job's workload, or updates it with the Job's state."""
        metadata = job["metadata"]
        workload = self._store.find(WORKLOADS, metadata["namespace"], workload_name(job))
        if workload is None:
            if not (is_true(job, "Complete") or is_true(job, "Failed")):
                self._store.create(WORKLOADS, self._workload(job))
            return
        status = workload["status"]
        for kind, reason in (("Complete", "Succeeded"), ("Failed", "Failed")):
            if is_true(job, kind):
                status = with_condition(status, "Finished", reason, "Job finished")
        (pods,) = workload["spec"]["podSets"]
        ready = (job.get("status") or {}).get("ready", 0) >= pods["count"]
        if ready and is_true(workload, "Admitted"):
            said = "All pods reached readiness and the workload is running"
            status = with_condition(status, "PodsReady", "Started", said)
        self._store.set_status(WORKLOADS, workload, status)
        if is_true(workload, "Admitted") and not is_true(workload, "Finished"):
            self._start(job, workload)

    def _workload(self, job: Object) -> Object:
        metadata, spec = job["metadata"], job["spec"]
        count = min(spec["parallelism"], spec.get("completions") or spec["parallelism"])
        about = {
            "name": workload_name(job),
            "namespace": metadata["namespace"],
            **new_metadata(),
            "labels": {"kueue.x-k8s.io/job-uid": metadata["uid"]},
            "ownerReferences": [JOBS.as_owner(job)],
        }
        pods = {"name": "main", "count": count, "template": copy.deepcopy(spec["template"])}
        named = (metadata.get("labels") or {}).get(_PRIORITY, "")
        level = (self._store.find(WORKLOAD_PRIORITIES, "", named) or {}).get("value", 0)
        wanted = {"queueName": _queue(job), "podSets": [pods], "priority": int(level)}
        return {"metadata": about, "spec": {**wanted, "active": True}, "status": {}}

    def _admit(self, workload: Object) -> None:
        found = self._cluster_queue(workload)
        if isinstance(found, Refusal):
            self._refuse(workload, found)
            return
        name = found["metadata"]["name"]
        admitted = [each for each in self._store.items(WORKLOADS) if _holds(each, name)]
        flavors = {each["metadata"]["name"]: each for each in self._store.items(FLAVORS)}
        assignment = assign(found, workload, admitted, flavors)
        if isinstance(assignment, Refusal):
            self._refuse(workload, assignment)
            return
        self._reserve(workload, name, assignment)

    def _cluster_queue(self, workload: Object) -> Object | Refusal:
        queue = workload["spec"]["queueName"]
        local = self._store.find(LOCAL_QUEUES, workload["metadata"]["namespace"], queue)
        if local is None:
            return Refusal("Misconfigured", f"LocalQueue {queue} doesn't exist")
        name = local["spec"]["clusterQueue"]
        found = self._store.find(CLUSTER_QUEUES, "", name)
        if found is None:
            return Refusal("Misconfigured", f"ClusterQueue {name} doesn't exist")
        if why_inactive(self._store, found) is not None:
            return Refusal("Misconfigured", f"ClusterQueue {name} is inactive")
        return found

    def _reserve(self, workload: Object, queue: str, assignment: Assignment) -> None:
        (pods,) = workload["spec"]["podSets"]
        held = {
            "name": "main",
            "flavors": assignment.flavors,
            "resourceUsage": assignment.usage,
            "count": pods["count"],
        }
        status = {
            **workload["status"],
            "admission": {"clusterQueue": queue, "podSetAssignments": [held]},
        }
        reserved = f"Quota reserved in ClusterQueue {queue}"
        status = with_condition(status, "QuotaReserved", "QuotaReserved", reserved)
        status["admissionChecks"] = [_check(name) for name in self._checks(queue, assignment)]
        self._store.set_status(WORKLOADS, workload, status)

    def _checks(self, queue: str, assignment: Assignment) -> list[str]:
        """Returns the checks of a queue for the flavors assigned to a workload."""
        spec = (self._store.find(CLUSTER_QUEUES, "", queue) or {}).get("spec", {})
        rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
        flavors = {*assignment.flavors.values()}
        return [
            each["name"]
            for each in rules
            if not each.get("onFlavors") or flavors & {*each["onFlavors"]}
        ]

    def _refuse(self, workload: Object, why: Refusal) -> None:
        status = with_condition(
            workload["status"], "QuotaReserved", why.reason, why.message, holds=False
        )
        self._store.set_status(WORKLOADS, workload, status)

    def _start(self, job: Object, workload: Object) -> None:
        """Unsuspends an admitted Job, with the node labels of its flavors."""
        if not job["spec"]["suspend"]:
            return
        (held,) = workload["status"]["admission"]["podSetAssignments"]
        template = copy.deepcopy(job["spec"]["template"])
        for name in sorted(set(held["flavors"].values())):
            flavor = (self._store.find(FLAVORS, "", name) or {}).get("spec", {})
            template["spec"].setdefault("nodeSelector", {}).update(flavor.get("nodeLabels") or {})
        for check in workload["status"].get("admissionChecks") or ():
            for update in check.get("podSetUpdates") or ():
                notes = template.setdefault("metadata", {}).setdefault("annotations", {})
                notes |= update.get("annotations") or {}
        spec = {**job["spec"], "suspend": False, "template": template}
        self._store.replace(JOBS, {**job, "spec": spec})


def workload_name(job: Object) -> str:
    """Returns the name of a Job's workload: the Job's name and a hash of its uid."""
    mark = hashlib.sha256(job["metadata"]["uid"].encode()).hexdigest()[:5]
    return f"job-{job['metadata']['name']}-{mark}"


def _queue(job: Object) -> str:
    return str((job["metadata"].get("labels") or {}).get(QUEUE, ""))


def _waits(workload: Object) -> bool:
    over = is_true(workload, "QuotaReserved") or is_true(workload, "Finished")
    return bool(workload["spec"]["active"]) and not over


def _holds(workload: Object, queue: str) -> bool:
    held = workload["status"].get("admission", {}).get("clusterQueue") == queue
    return held and not is_true(workload, "Finished")


def _order(workload: Object) -> tuple[int, str, int]:
    metadata = workload["metadata"]
    version = int(metadata["resourceVersion"])
    return -workload["spec"]["priority"], metadata["creationTimestamp"], version


def _check(name: str) -> dict[str, Any]:
    return {"name": name, "state": "Pending", "message": "", "lastTransitionTime": now()}


_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"


class Provisioning(Controller):
    """The controller of the check; Kueue starts it only if the cluster has ProvisioningRequests."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerned(self, change: Change) -> Iterator[str]:
        if change.resource in (WORKLOADS, PROVISIONING_REQUESTS, CHECKS, CHECK_CONFIGS):
            yield _ALL

    def reconcile(self, _: str) -> None:
        with self._store.changed:
            configs = {}
            for check in self._store.items(CHECKS):
                if check["spec"]["controllerName"] == _CONTROLLER:
                    configs[check["metadata"]["name"]] = self._config(check)
            for workload in self._store.items(WORKLOADS):
                if is_true(workload, "QuotaReserved") and not is_true(workload, "Finished"):
                    self._follow(workload, configs)

    def _config(self, check: Object) -> Object | None:
        """Returns a check's config, or None if it is missing, and updates the check's status."""
        name = (check["spec"].get("parameters") or {}).get("name", "")
        config = self._store.find(CHECK_CONFIGS, "", name)
        said = "Active", "The admission check is active"
        if config is None:
            why = f'provisioningrequestconfigs.kueue.x-k8s.io "{name}" not found'
            said = "BadParametersRef", why
        known = check.get("status") or {}
        status = with_condition(known, "Active", *said, holds=config is not None)
        self._store.set_status(CHECKS, check, status)
        return config

    def _follow(self, workload: Object, configs: dict[str, Object | None]) -> None:
        about = workload["metadata"]
        checks = workload["status"].get("admissionChecks") or []
        new = []
        for check in checks:
            name = f"{about['name']}-{check['name']}-1"  # the first attempt, which never fails here
            request = self._store.find(PROVISIONING_REQUESTS, about["namespace"], name)
            config = configs.get(check["name"])
            if config is not None and request is None:
                self._ask(workload, name, config)
            new.append(check if request is None else _judged(check, request))
        if new != checks:
            status = {**workload["status"], "admissionChecks": new}
            self._store.set_status(WORKLOADS, workload, status)

    def _ask(self, workload: Object, name: str, config: Object) -> None:
        """Creates the request, and its pods' template with the node labels of their flavor."""
        status = workload["status"]
        (pods,), (held,) = workload["spec"]["podSets"], status["admission"]["podSetAssignments"]
        template = copy.deepcopy(pods["template"])
        for flavor in sorted({*held["flavors"].values()}):
            labels = (self._store.find(FLAVORS, "", flavor) or {}).get("spec", {}).get("nodeLabels")
            template["spec"].setdefault("nodeSelector", {}).update(labels or {})
        made = f"ppt-{name}-main"
        request = self._make(
            PROVISIONING_REQUESTS,
            name,
            workload,
            WORKLOADS,
            spec={
                "provisioningClassName": config["spec"]["provisioningClassName"],
                "podSets": [{"podTemplateRef": {"name": made}, "count": pods["count"]}],
            },
            status={},
        )
        self._make(POD_TEMPLATES, made, request, PROVISIONING_REQUESTS, template=template)

    def _make(
        self, resource: Resource, name: str, owner: Object, kind: Resource, **fields: Any
    ) -> Object:
        about = {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            **new_metadata(),
            "ownerReferences": [kind.as_owner(owner)],
        }
        return self._store.create(resource, {"metadata": about, **fields})


def _judged(check: Object, request: Object) -> Object:
    """Returns a check with the state of its request (syncCheckStates)."""
    said = condition_of(request, "Provisioned").get("message", check["message"])
    if not is_true(request, "Provisioned"):
        return {**check, "state": "Pending", "message": said}
    name, kind = request["metadata"]["name"], request["spec"]["provisioningClassName"]
    updates = [{"name": "main", "annotations": {CONSUMES: name, _CLASS: kind}}]
    return {**check, "state": "Ready", "message": said, "podSetUpdates": updates}
