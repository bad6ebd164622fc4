"""Admission by a ClusterQueue, with Kueue's messages for refusals and inactive queues.

Source of the messages: kueue 0.19, pkg/cache/scheduler/clusterqueue.go (inactiveReason), and the
reasons of apis/kueue/v1beta2/clusterqueue_types.go.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.resources import (
    CHECKS,
    CLUSTER_QUEUES,
    FLAVORS,
    LOCAL_QUEUES,
    Resource,
)
from fairway_simulator.kubernetes.controllers.scheduler import requests_of, tolerates
from fairway_simulator.kubernetes.events import is_true, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_simulator.kubernetes.api.store import Object, Store

_PODS = "pods"


@dataclass(frozen=True)
class Assignment:
    flavors: dict[str, str]
    usage: dict[str, str]


@dataclass(frozen=True)
class Refusal:
    reason: str
    message: str


def demand(workload: Object) -> Counter[str]:
    (pods,) = workload["spec"]["podSets"]
    one = requests_of(pods["template"]["spec"])
    return Counter({name: amount * pods["count"] for name, amount in one.items()})


def assign(
    queue: Object, workload: Object, admitted: Iterable[Object], flavors_: Mapping[str, Object]
) -> Assignment | Refusal:
    """Assigns each resource that a queue covers its first flavor with enough quota whose nodes suit
    the pods; `flavors_` has all flavors by name."""
    used: Counter[tuple[str, str]] = Counter()
    for other in admitted:
        (held,) = other["status"]["admission"]["podSetAssignments"]
        for name, text in held["resourceUsage"].items():
            used[held["flavors"][name], name] += parse(text)  # type: ignore[assignment]
    flavors: dict[str, str] = {}
    usage: dict[str, str] = {}
    wanted = demand(workload)
    for name, amount in wanted.items():
        group = _group(queue, name)
        if group is None:
            if name == _PODS:
                continue
            return _refused("NoMatchingFlavor", f"resource {name} unavailable in ClusterQueue")
        (pods,) = workload["spec"]["podSets"]
        unfit = [_unfit(each["name"], flavors_, pods) for each in group["flavors"]]
        if all(unfit):
            return _refused("NoMatchingFlavor", unfit[0])
        suited = [each for each, why in zip(group["flavors"], unfit, strict=True) if not why]
        found = _flavor({**group, "flavors": suited}, name, amount, used)
        if isinstance(found, Refusal):
            return found
        flavors[name] = found
        usage[name] = _text(amount)
    return Assignment(flavors, usage)


def _group(queue: Object, resource: str) -> Object | None:
    for group in queue["spec"].get("resourceGroups") or ():
        if resource in group["coveredResources"]:
            return dict(group)
    return None


def _unfit(name: str, flavors: Mapping[str, Object], pods: Object) -> str:
    """Returns why the nodes of a flavor do not suit the pods, or ""."""
    flavor, spec = flavors[name].get("spec") or {}, pods["template"]["spec"]
    bearing = spec.get("tolerations") or ()
    for taint in flavor.get("nodeTaints") or ():
        if taint["effect"] == "PreferNoSchedule":
            continue
        if not any(tolerates(each, taint) for each in bearing):
            said = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
            return f"untolerated taint {said} in flavor {name}"
    labels, wanted = flavor.get("nodeLabels") or {}, spec.get("nodeSelector") or {}
    if any(labels.get(key, value) != value for key, value in wanted.items()):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _flavor(
    group: Object, resource: str, amount: Any, used: Counter[tuple[str, str]]
) -> str | Refusal:
    refusals = []
    for flavor in group["flavors"]:
        quota = next(each for each in flavor["resources"] if each["name"] == resource)
        most = parse(quota["nominalQuota"])
        free = most - used[flavor["name"], resource]
        where = f"{resource} in flavor {flavor['name']}"
        if amount > most:
            said = f"insufficient quota for {where}, previously considered podsets requests (0) + "
            said += f"current podset request ({_text(amount)}) > maximum capacity ({_text(most)})"
            refusals.append(_refused("ExceedsMaxQuota", said))
        elif amount > free:
            said = f"insufficient unused quota for {where}, {_text(amount - free)} more needed"
            refusals.append(_refused("WaitingForQuota", said))
        else:
            return str(flavor["name"])
    # A temporary refusal is more useful than a permanent one.
    return min(refusals, key=lambda refusal: refusal.reason == "ExceedsMaxQuota")


def _refused(reason: str, said: str) -> Refusal:
    return Refusal(reason, f"couldn't assign flavors to pod set main: {said}")


def _text(amount: Any) -> str:
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"


def why_inactive(store: Store, queue: Object) -> tuple[str, str] | None:
    """Returns the reason and message if a ClusterQueue is inactive, or None."""
    spec, cannot = queue["spec"], "Can't admit new workloads"
    if spec.get("stopPolicy", "None") != "None":
        return "Stopped", cannot
    for group in spec.get("resourceGroups") or ():
        for name in (each["name"] for each in group["flavors"]):
            if store.find(FLAVORS, "", name) is None:
                said = f"{cannot}: references missing ResourceFlavor(s): {name}"
                return "FlavorNotFound", said
    for rule in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        check = store.find(CHECKS, "", rule["name"])
        if check is None:
            said = f"{cannot}: references missing AdmissionCheck(s): {rule['name']}"
            return "AdmissionCheckNotFound", said
        if not is_true(check, "Active"):
            said = f"{cannot}: references inactive AdmissionCheck(s): {rule['name']}"
            return "AdmissionCheckInactive", said
    return None


def say_who_is_active(store: Store) -> None:
    for queue in store.items(CLUSTER_QUEUES):
        why = why_inactive(store, queue)
        _say(store, CLUSTER_QUEUES, queue, *(why or ("Ready", "Can admit new workloads")))
    for queue in store.items(LOCAL_QUEUES):
        known = store.find(CLUSTER_QUEUES, "", queue["spec"]["clusterQueue"])
        reason, said = "Ready", "Can submit new workloads to localQueue"
        if known is None or not is_true(known, "Active"):
            reason = "ClusterQueueDoesNotExist" if known is None else "ClusterQueueIsInactive"
            said = "Can't submit new workloads to clusterQueue"
        _say(store, LOCAL_QUEUES, queue, reason, said)


def _say(store: Store, resource: Resource, queue: Object, reason: str, said: str) -> None:
    known = queue.get("status") or {}
    status = with_condition(known, "Active", reason, said, holds=reason == "Ready")
    store.set_status(resource, queue, status)
