"""Kueue's check that asks the autoscaler for the nodes of all pods of a workload.

Source: kueue 0.19, pkg/controller/admissionchecks/provisioning (controller.go, provisioning.go,
admissioncheck_reconciler.go), and apis/kueue/v1beta2/provisioningrequestconfig_types.go.
"""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.resources import (
    CHECK_CONFIGS,
    CHECKS,
    FLAVORS,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    Resource,
)
from fairway_simulator.kubernetes.controllers.autoscaler import CONSUMES
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import condition_of, is_true, now, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
_RETRIES = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
_ALL = "all"


class Provisioning(Controller):
    """The controller of the check; where the cluster has no such requests, Kueue starts none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerned(self, change: Change) -> Iterator[str]:
        """Workloads, their requests, and what these follow from."""
        if change.resource in (WORKLOADS, PROVISIONING_REQUESTS, CHECKS, CHECK_CONFIGS):
            yield _ALL

    def reconcile(self, _: str) -> None:
        """Looks at all checks, and at the workloads that have them."""
        with self._store.changed:
            configs = {}
            for check in self._store.items(CHECKS):
                if check["spec"]["controllerName"] == _CONTROLLER:
                    configs[check["metadata"]["name"]] = self._config(check)
            for workload in self._store.items(WORKLOADS):
                if is_true(workload, "QuotaReserved"):
                    self._follow(workload, configs)

    def _config(self, check: Object) -> Object | None:
        """Config that a check names, or None; the check's status then says if it was found."""
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
        checks = workload["status"].get("admissionChecks") or []
        new = []
        for check in checks:
            config = configs.get(check["name"])
            if config is None or is_true(workload, "Finished"):
                new.append(check)
                continue
            attempt, request = self._last(workload, check["name"])
            found = _judged(workload, check, config, attempt, request)
            new.append(found)
            is_over = request is None or _why_over(request)
            if is_over and found["state"] == "Pending" and not is_true(workload, "Admitted"):
                # The count of retries is what names the next, where the last one is gone.
                number = max(attempt, check.get("retryCount", 0)) + 1
                self._ask(workload, check["name"], config, number)
        if new != checks:
            status = {**workload["status"], "admissionChecks": new}
            self._store.set_status(WORKLOADS, workload, status)

    def _last(self, workload: Object, check: str) -> tuple[int, Object | None]:
        about = workload["metadata"]
        prefix = f"{about['name']}-{check}-"
        found = {
            int(number): request
            for request in self._store.items(PROVISIONING_REQUESTS, about["namespace"])
            if (number := request["metadata"]["name"].removeprefix(prefix)).isdecimal()
        }
        return max(found.items(), default=(0, None))

    def _ask(self, workload: Object, check: str, config: Object, attempt: int) -> None:
        """Makes the request, and the template of its pods, as they are to be on their flavor."""
        about, status = workload["metadata"], workload["status"]
        (pods,), (held,) = workload["spec"]["podSets"], status["admission"]["podSetAssignments"]
        template = copy.deepcopy(pods["template"])
        for name in sorted({*held["flavors"].values()}):
            labels = (self._store.find(FLAVORS, "", name) or {}).get("spec", {}).get("nodeLabels")
            template["spec"].setdefault("nodeSelector", {}).update(labels or {})
        name = f"{about['name']}-{check}-{attempt}"
        request = self._make(
            PROVISIONING_REQUESTS,
            name,
            workload,
            WORKLOADS,
            spec={
                "provisioningClassName": config["spec"]["provisioningClassName"],
                "podSets": [
                    {"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": pods["count"]}
                ],
                "parameters": dict(config["spec"].get("parameters") or {}),
            },
            status={},
        )
        made = f"ppt-{name}-main"
        self._make(POD_TEMPLATES, made, request, PROVISIONING_REQUESTS, template=template)

    def _make(
        self, resource: Resource, name: str, owner: Object, kind: Resource, **fields: Any
    ) -> Object:
        about = {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now(),
            "ownerReferences": [kind.as_owner(owner)],
        }
        return self._store.create(resource, {"metadata": about, **fields})


def _judged(
    workload: Object, check: Object, config: Object, attempt: int, request: Object | None
) -> Object:
    """The state of a check, by its request (syncCheckStates)."""
    if request is None:
        return check
    retries = {**_RETRIES, **(config["spec"].get("retryStrategy") or {})}
    is_admitted = is_true(workload, "Admitted")
    kind = _why_over(request)
    if kind and not (kind == "BookingExpired" and is_admitted):
        why = condition_of(request, kind)["message"]
        if kind == "CapacityRevoked" or attempt > retries["backoffLimitCount"]:
            return {**check, "state": "Rejected", "message": why}
        after = "failure" if kind == "Failed" else "booking expired"
        check = {**check, "message": f"Retrying after {after}: {why}"}
        if attempt <= check.get("retryCount", 0):
            return check  # this one was counted
        pause = min(
            retries["backoffBaseSeconds"] * 2 ** (attempt - 1), retries["backoffMaxSeconds"]
        )
        return {**check, "state": "Retry", "retryCount": attempt, "requeueAfterSeconds": pause}
    if is_true(request, "Provisioned"):
        if check["state"] == "Ready":
            return check
        notes = {
            CONSUMES: request["metadata"]["name"],
            _CLASS: request["spec"]["provisioningClassName"],
        }
        said = condition_of(request, "Provisioned")["message"]
        updates = [{"name": "main", "annotations": notes}]
        return {**check, "state": "Ready", "message": said, "podSetUpdates": updates}
    if is_true(request, "Accepted"):
        said = condition_of(request, "Provisioned").get("message", check["message"])
        return {**check, "state": "Pending", "message": said}
    return {**check, "state": "Pending", "message": ""}


def _why_over(request: Object) -> str:
    """The condition by which a request has come to its end; "" for none."""
    kinds = ("Failed", "CapacityRevoked", "BookingExpired")
    return next((kind for kind in kinds if is_true(request, kind)), "")
