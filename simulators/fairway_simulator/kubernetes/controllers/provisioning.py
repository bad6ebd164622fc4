"""Kueue's check that asks the autoscaler for the nodes of all pods of a workload.

Source: kueue 0.19, pkg/controller/admissionchecks/provisioning (controller.go, provisioning.go,
admissioncheck_reconciler.go), and apis/kueue/v1beta2/provisioningrequestconfig_types.go.
"""

from __future__ import annotations

import copy
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
from fairway_simulator.kubernetes.events import condition_of, is_true, new_metadata, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
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
                if is_true(workload, "QuotaReserved") and not is_true(workload, "Finished"):
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
        about = workload["metadata"]
        checks = workload["status"].get("admissionChecks") or []
        new = []
        for check in checks:
            name = f"{about['name']}-{check['name']}-1"  # the first attempt: none fails here
            request = self._store.find(PROVISIONING_REQUESTS, about["namespace"], name)
            config = configs.get(check["name"])
            if config is not None and request is None:
                self._ask(workload, name, config)
            new.append(check if request is None else _judged(check, request))
        if new != checks:
            status = {**workload["status"], "admissionChecks": new}
            self._store.set_status(WORKLOADS, workload, status)

    def _ask(self, workload: Object, name: str, config: Object) -> None:
        """Makes the request, and the template of its pods, as they are to be on their flavor."""
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
    """The state of a check, by its request (syncCheckStates)."""
    said = condition_of(request, "Provisioned").get("message", check["message"])
    if not is_true(request, "Provisioned"):
        return {**check, "state": "Pending", "message": said}
    name, kind = request["metadata"]["name"], request["spec"]["provisioningClassName"]
    updates = [{"name": "main", "annotations": {CONSUMES: name, _CLASS: kind}}]
    return {**check, "state": "Ready", "message": said, "podSetUpdates": updates}
