"""The scheduler: gives each pod a node with enough free resources, or reports why none suits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.pods import bind
from fairway_simulator.kubernetes.api.resources import CLAIMS, NODES, PODS
from fairway_simulator.kubernetes.controllers.job_state import is_ended
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.events import Recorder, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_ALL = "all"
_NO_VICTIMS = "No preemption victims found for incoming pod."
_NOT_HELPFUL = "Preemption is not helpful for scheduling."


class Scheduler(Controller):
    """The scheduler, which binds pods by priority, then by age."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recorder = Recorder(store, "default-scheduler")

    def concerned(self, change: Change) -> Iterator[str]:
        if change.resource in (PODS, NODES, CLAIMS):
            yield _ALL

    def reconcile(self, _: str) -> None:
        with self._store.changed:
            pods = self._store.items(PODS)
            waiting = [pod for pod in pods if _waits(pod)]
            if not waiting:
                return
            nodes = self._store.items(NODES)
            used = {node["metadata"]["name"]: used_of(node, pods) for node in nodes}
            order = sorted(
                waiting,
                key=lambda pod: (
                    -pod["spec"].get("priority", 0),
                    pod["metadata"]["creationTimestamp"],
                    int(pod["metadata"]["resourceVersion"]),
                ),
            )
            for pod in order:
                self._place(pod, nodes, used)

    def _place(self, pod: Object, nodes: list[Object], used: dict[str, Counter[str]]) -> None:
        if lacking := self._lacking_claim(pod):
            self._wait(pod, f'persistentvolumeclaim "{lacking}" not found', nodes, set())
            return
        wanted = requests_of(pod["spec"])
        fitting, reasons, helpless = [], Counter[str](), set()
        for node in nodes:
            name = node["metadata"]["name"]
            if why := unsuitable(pod, node):
                reasons[why] += 1
                helpless.add(name)
            elif short := short_of(wanted, node, used[name]):
                reasons.update(short)
            else:
                fitting.append(name)
        if not fitting:
            said = ", ".join(sorted(f"{count} {why}" for why, count in reasons.items()))
            self._wait(pod, said, nodes, helpless)
            return
        # The emptiest node first, as in the real scheduler by default.
        liked = self._liked(pod)
        chosen = min(fitting, key=lambda name: (-liked[name], sum(used[name].values()), name))
        used[chosen].update(wanted)
        metadata = pod["metadata"]
        bind(self._store, metadata["namespace"], metadata["name"], chosen)
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {chosen}"
        self._recorder.record(PODS, pod, "Scheduled", message)

    def _wait(self, pod: Object, why: str, nodes: list[Object], helpless: set[str]) -> None:
        message = "no nodes available to schedule pods"
        if nodes:
            count = len(nodes)
            sentences = Counter[str]()
            sentences[_NO_VICTIMS] = count - len(helpless)
            sentences[_NOT_HELPFUL] = len(helpless)
            said = ", ".join(f"{number} {text}" for text, number in (+sentences).items())
            message = f"0/{count} nodes are available: {why}. preemption: 0/{count} nodes are "
            message += f"available: {said}"
        status = with_condition(
            pod["status"], "PodScheduled", "Unschedulable", message, holds=False
        )
        if status != pod["status"]:
            self._store.replace(PODS, {**pod, "status": status})
            self._recorder.record(PODS, pod, "FailedScheduling", message, bad=True)

    def _liked(self, pod: Object) -> Counter[str]:
        """Returns the weight of a pod's preference for each node name, given the existing pods."""
        found = Counter[str]()
        affinity = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
        for each in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            term = each["podAffinityTerm"]
            if term["topologyKey"] != "kubernetes.io/hostname":
                continue
            wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
            for other in self._store.items(PODS):
                same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
                labels = other["metadata"].get("labels") or {}
                if same and not is_ended(other) and wanted.items() <= labels.items():
                    found[other["spec"].get("nodeName", "")] += each["weight"]
        return found

    def _lacking_claim(self, pod: Object) -> str:
        for volume in pod["spec"].get("volumes") or ():
            if claim := volume.get("persistentVolumeClaim"):
                namespace = pod["metadata"]["namespace"]
                if self._store.find(CLAIMS, namespace, claim["claimName"]) is None:
                    return str(claim["claimName"])
        return ""


def requests_of(spec: Mapping[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        for name, text in (container.get("resources", {}).get("requests") or {}).items():
            total[name] += _amount(text)
    total["pods"] = 1
    return total


def _amount(text: Any) -> Any:
    """Parses an amount exactly: a thousandth of a core counts."""
    found: Fraction = parse(text)
    return found


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and spec.get("schedulerName") == "default-scheduler"
        and not is_ended(pod)
    )


def used_of(node: Object, pods: Iterable[Object]) -> Counter[str]:
    total: Counter[str] = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName") == node["metadata"]["name"] and not is_ended(pod):
            total.update(requests_of(pod["spec"]))
    return total


def short_of(wanted: Counter[str], node: Object, used: Counter[str]) -> list[str]:
    """Returns Kubernetes' message for each resource that a node has too little of."""
    known = node["status"].get("allocatable") or {}
    free = {name: _amount(known.get(name, "0")) - used[name] for name in wanted}
    free["pods"] = _amount(known.get("pods", "110")) - used["pods"]
    lacking = [name for name in wanted if wanted[name] > free[name]]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in lacking]


def unsuitable(pod: Object, node: Object) -> str:
    """Returns why a node does not suit a pod, however many resources are free, or ""."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable"):
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not any(tolerates(each, taint) for each in tolerations):
            return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] == "PreferNoSchedule":
            continue
        if not any(tolerates(each, taint) for each in tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    if (spec.get("affinity") or {}).get("nodeAffinity"):
        return "node(s) of the stand-in, which know no nodeAffinity"
    return ""


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Returns True if a toleration matches a taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same = bool(toleration.get("key") == taint["key"])
    return same and bool(toleration.get("value", "") == taint.get("value", ""))
