"""What the server adds to objects that do not say it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # without vowels: no words come of it


def suffix(length: int = 5) -> str:
    """What makes a name another than any before."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def complete(resource: Resource, found: Object) -> None:
    """Adds the defaults of its kind."""
    what = {
        "jobs": _job,
        "pods": _pod,
        "deployments": _deployment,
        "replicasets": _replica_set,
        "persistentvolumeclaims": _claim,
        "namespaces": _namespace,
        "secrets": _secret,
    }.get(resource.plural)
    if what is not None and isinstance(found.get("spec", {}), dict):
        what(found)


def _job(job: Object) -> None:
    spec, metadata = job.setdefault("spec", {}), job["metadata"]
    completions = spec.get("completions")
    if completions is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    # With a limit for each index there is none for all.
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("status", "True")
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    uid = metadata.get("uid")
    if uid and not spec["manualSelector"]:
        controller = {"batch.kubernetes.io/controller-uid": uid}
        labels |= {**controller, "controller-uid": uid}
        labels |= {
            "batch.kubernetes.io/job-name": metadata.get("name", ""),
            "job-name": metadata.get("name", ""),
        }
        spec.setdefault("selector", {"matchLabels": controller})
    _pod_spec(template.setdefault("spec", {}))


def _deployment(deployment: Object) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {"maxUnavailable": "25%", "maxSurge": "25%"})
    _pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _replica_set(found: Object) -> None:
    spec = found.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _pod(pod: Object) -> None:
    _pod_spec(pod.setdefault("spec", {}))
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", _quality(pod["spec"]))


def _claim(claim: Object) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _namespace(namespace: Object) -> None:
    name = namespace["metadata"].get("name", "")
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")


def _pod_spec(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image") or "")
        latest = image.rpartition("/")[2].partition(":")[2] in ("", "latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _quality(spec: Object) -> str:
    """The class by which a node chooses whom to evict first."""
    named: list[Any] = [each.get("resources") or {} for each in spec.get("containers") or ()]
    if not any(each.get("requests") or each.get("limits") for each in named):
        return "BestEffort"
    for each in named:
        limits, requests = each.get("limits") or {}, each.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or parse(limits[name]) != parse(requests.get(name, "0")):
                return "Burstable"
    return "Guaranteed"
