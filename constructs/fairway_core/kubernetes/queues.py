"""Queues: Kueue, and the quota that it may assign in each pool.

Objects: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/, of release 0.19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from fairway_agent.kubernetes.settings import parse
from fairway_core.kubernetes import documents, flux
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.kubernetes.pools import ON_SYSTEM, access_of, of_node, taints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.target import Target

NAMESPACE = "kueue-system"
PRIORITIES: Final[Mapping[Literal["low", "normal", "high"], str]] = {
    "low": "fairway-low",
    "normal": "fairway-normal",
    "high": "fairway-high",
}
"""The priority classes, by a job's `priority`."""
_VALUES = {"low": -1000, "normal": 0, "high": 1000}
_GROUP = "kueue.x-k8s.io"
_VERSION = f"{_GROUP}/v1beta2"
_PROVISIONING = "fairway-nodes"
"""The check that asks a pool's autoscaler for the nodes of all pods before one of them starts.

AKS' autoscaler supports the class from Kubernetes 1.33 on, without any setting.
Sources: Azure documentation, AKS: Kueue with the cluster autoscaler; Azure/AKS, pull request 5867.
"""
_AT_ONCE = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
_CHARTS = "oci://registry.k8s.io/kueue/charts"


def installation(version: str, wait_for_pods: float | None) -> list[Manifest]:
    """Returns the release of Kueue's chart, for Jobs only; with `wait_for_pods`, a Job whose pods
    are not all ready after that many seconds returns its quota.

    It is off by default: Kueue does not count failed pods as ready, and would end a running sweep
    some of whose tasks fail early.
    """
    settings: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "integrations": {"frameworks": ["batch/job"]},
    }
    if wait_for_pods is not None:
        # No recovery timeout for a started Job: it would wait for the pod of a failed task.
        limits = {"timeout": f"{round(wait_for_pods)}s", "recoveryTimeout": "0s"}
        settings["waitForPodsReady"] = limits
    values = {
        "controllerManager": {"tolerations": ON_SYSTEM},
        "managerConfig": {"controllerManagerConfigYaml": documents.text([settings])},
    }
    return [
        manifest("v1", "Namespace", NAMESPACE),
        flux.chart_repository("kueue", _CHARTS),
        flux.release("kueue", "kueue", version, values, namespace=NAMESPACE),
    ]


def objects(targets: Sequence[Target], *, atomic: bool = True) -> list[Manifest]:
    """Returns a flavor, a cluster queue and a local queue for each target, with the quota of all
    its nodes, and the priority classes; with `atomic` also the check for pools that scale, see
    `_PROVISIONING`."""
    found = [each for target in targets for each in _queue(target, atomic=atomic)]
    if atomic and any(target.nodes.scales for target in targets):
        # A ProvisioningRequest for each Job, of all resources, with Kueue's default of retries.
        config = {"apiGroup": _GROUP, "kind": "ProvisioningRequestConfig", "name": _PROVISIONING}
        check = {"controllerName": f"{_GROUP}/provisioning-request", "parameters": config}
        spec = {"provisioningClassName": _AT_ONCE}
        found += [
            manifest(_VERSION, "ProvisioningRequestConfig", _PROVISIONING, spec=spec),
            manifest(_VERSION, "AdmissionCheck", _PROVISIONING, spec=check),
        ]
    return found + [
        manifest(_VERSION, "WorkloadPriorityClass", name, value=_VALUES[said])
        for said, name in PRIORITIES.items()
    ]


def _queue(target: Target, *, atomic: bool) -> list[Manifest]:
    access = access_of(target)
    assert access.queue is not None, "only targets with a queue are queued"
    name, each_node = access.queue, of_node(target)
    quotas = [
        {"name": resource, "nominalQuota": _times(amount, target.nodes.max)}
        for resource, amount in each_node.items()
    ]
    nodes = {"nodeLabels": dict(access.selector), "nodeTaints": taints(target)}
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": access.namespace}},
        # A job that waits for many nodes does not block others; priorities order both.
        "queueingStrategy": "BestEffortFIFO",
        # No run is ended for another.
        "preemption": {"withinClusterQueue": "Never"},
        "resourceGroups": [
            {"coveredResources": list(each_node), "flavors": [{"name": name, "resources": quotas}]}
        ],
    }
    if atomic and target.nodes.scales:
        rule = {"name": _PROVISIONING, "onFlavors": [name]}
        spec["admissionChecksStrategy"] = {"admissionChecks": [rule]}
    return [
        manifest(_VERSION, "ResourceFlavor", name, spec=nodes),
        manifest(_VERSION, "ClusterQueue", name, spec=spec),
        manifest(_VERSION, "LocalQueue", name, access.namespace, spec={"clusterQueue": name}),
    ]


def _times(quantity: str, count: int) -> str:
    """Returns a quantity multiplied by `count`, in its own unit.

    >>> _times("1710Gi", 8), _times("500m", 3), _times("1.5", 3)
    ('13680Gi', '1500m', '4.5')
    """
    number = quantity.rstrip("numkKMGTPEi")
    return f"{float(parse(number) * count):.12g}{quantity[len(number) :]}"
