"""The autoscaler of AKS, by a clock that is given: it starts nodes for pods that have none, and for
ProvisioningRequests. It deletes those that do not come, and those that no pod uses for a while.

Sources, each in kubernetes/autoscaler, cluster-autoscaler: FAQ.md (startup taints, events,
ProvisioningRequest), provisioningrequest/besteffortatomic/provisioning_class.go, conditions.go,
processors/provreq (injector.go, processor.go, pods_filter.go), processors/customresources (GPUs),
cloudprovider/azure/azure_scale_set.go (AtomicIncreaseSize).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import NODE_PROVISIONING
from fairway_simulator.kubernetes.api.resources import (
    NODES,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUESTS,
)
from fairway_simulator.kubernetes.controllers.job_state import is_ended
from fairway_simulator.kubernetes.controllers.loop import Controller
from fairway_simulator.kubernetes.controllers.scheduler import (
    requests_of,
    short_of,
    unsuitable,
    used_of,
)
from fairway_simulator.kubernetes.events import Recorder, at, condition_of, is_true, with_condition
from fairway_simulator.kubernetes.kubelet.kubelet import NodeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fairway_simulator.kubernetes.api.store import Object, Store

CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
AT_ONCE = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/"
"""Start of the key of a taint that marks a node as about to be ready."""
_GPU, _GPU_LABEL = "nvidia.com/gpu", "accelerator"
_KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_ALL = "all"
_BOOKED = 600.0  # seconds
# Seconds until a request is tried again, at first and at most; and a pool, after a failure.
_FIRST_RETRY, _LAST_RETRY = 60.0, 600.0
_BACKOFF = 300.0


@dataclass
class Pool:
    """Nodes that come by need: `least` are there from the start and `most` is how many there may
    be; Azure has `stock` of them, of which the next `lost` never come. A node is Ready `boot`
    seconds after it was asked for. It offers what drivers bring, the `late` resources, `drivers`
    seconds after that, and has the taints of `at_first` until then. One that no pod uses goes after
    `idle` seconds."""

    name: str
    node: NodeSpec
    least: int = 0
    most: int = 1
    stock: int = 1000
    lost: int = 0
    boot: float = 240.0
    drivers: float = 600.0
    idle: float = math.inf
    late: Sequence[str] = ("rdma/ib", _GPU)
    at_first: Sequence[Mapping[str, str]] = ()

    def spec(self, name: str, *, whole: bool) -> NodeSpec:
        """A node of the pool, with all that it is to offer or as it is when it is new."""
        own = self.node
        if whole:
            return NodeSpec(name, own.resources, own.labels, own.taints)
        early = {key: amount for key, amount in own.resources.items() if key not in self.late}
        return NodeSpec(name, early, own.labels, [*own.taints, *self.at_first])


@dataclass
class _Instance:
    """A node that was asked for, and the times at which it is to be Ready and whole."""

    name: str
    pool: Pool
    asked: float
    ready: float
    whole: float
    is_there: bool = False


@dataclass
class _Room:
    """A node, and what is used of it."""

    node: Object
    used: Counter[str] = field(default_factory=Counter)


class Autoscaler(Controller):
    """`launch` makes a node, or gives one that is there what it has later."""

    def __init__(
        self,
        store: Store,
        pools: Sequence[Pool],
        clock: Callable[[], float],
        launch: Callable[[NodeSpec], None],
    ) -> None:
        self._store = store
        self._pools = pools
        self._clock = clock
        self._launch = launch
        self._recorder = Recorder(store, "cluster-autoscaler")
        self._coming: list[_Instance] = []
        self._sizes = {pool.name: pool.least for pool in pools}
        self._backoff: dict[str, float] = {}
        self._retry: dict[str, tuple[float, float]] = {}
        self._provisioned: dict[str, float] = {}
        self._unneeded: dict[str, float] = {}
        self.asked: Counter[str] = Counter()
        """Number of nodes of each pool that were asked for."""

    def first(self) -> list[NodeSpec]:
        """The nodes that are there from the start."""
        return [
            pool.spec(f"{pool.name}-{number}", whole=True)
            for pool in self._pools
            for number in range(pool.least)
        ]

    def due(self) -> Iterator[str]:
        """Always: it looks once in a while."""
        return iter([_ALL])

    def reconcile(self, _: str) -> None:
        """One look: at the nodes that come, at requests and at pods."""
        self._arrive()
        self._expire()
        if (request := self._next_request()) is not None:
            self._provision(request)
        self._scale_up()
        for pool in self._pools:
            self._scale_down(pool)

    def _arrive(self) -> None:
        now, coming = self._clock(), []
        for each in self._coming:
            if now >= each.whole:
                self._launch(each.pool.spec(each.name, whole=True))
                continue
            if now >= each.ready and not each.is_there:
                self._launch(each.pool.spec(each.name, whole=False))
                each.is_there = True
            # FAQ, "How does CA deal with unready nodes": what has not come by then is deleted.
            if not each.is_there and now >= each.asked + NODE_PROVISIONING:
                self._sizes[each.pool.name] -= 1
                continue
            coming.append(each)
        self._coming = coming

    def _ask(self, pool: Pool, count: int) -> None:
        now = self._clock()
        for _ in range(count):
            number = pool.least + self.asked[pool.name]
            ready = math.inf if pool.lost else now + pool.boot
            pool.lost = max(0, pool.lost - 1)
            name = f"{pool.name}-{number}"
            self._coming.append(_Instance(name, pool, now, ready, ready + pool.drivers))
            self.asked[pool.name] += 1
            self._sizes[pool.name] += 1

    # Requests.

    def _expire(self) -> None:
        """Capacity is booked for ten minutes, or until the pods are there (processor.go)."""
        for request in self._store.items(PROVISIONING_REQUESTS):
            uid, now = request["metadata"]["uid"], self._clock()
            if is_true(request, "BookingExpired") or not is_true(request, "Provisioned"):
                continue
            if self._consumers(request) >= sum(each["count"] for each in _pod_sets(request)):
                said = "Capacity booking is consumed"
                self._say(request, "BookingExpired", "CapacityBookingConsumed", said)
            elif now > self._provisioned.get(uid, now) + _BOOKED:
                said = "Capacity reservation time is expired"
                self._say(request, "BookingExpired", "CapacityReservationTimeExpired", said)

    def _consumers(self, request: Object) -> int:
        """Number of a request's pods that have a node."""
        about = request["metadata"]
        return sum(
            _request_of(pod) == about["name"] and bool(pod["spec"].get("nodeName"))
            for pod in self._store.items(PODS, about["namespace"])
        )

    def _next_request(self) -> Object | None:
        """One in each look, and one that was not met after a while (injector.go)."""
        for request in self._store.items(PROVISIONING_REQUESTS):
            again, _ = self._retry.get(request["metadata"]["uid"], (0.0, 0.0))
            known = request["spec"]["provisioningClassName"] == AT_ONCE
            if known and not is_true(request, "Provisioned") and self._clock() >= again:
                return request
        return None

    def _provision(self, request: Object) -> None:
        """All of its pods get nodes, or none is started. It is met when these are asked for, and
        not when they are there (provisioning_class.go)."""
        pods = self._pods_of(request)
        uid = request["metadata"]["uid"]
        said = "ProvisioningRequest is accepted by ClusterAutoscaler"
        request = self._say(request, "Accepted", "Accepted", said)
        lacking = _unplaced(pods, self._rooms())
        reason = "CapacityIsProvisioned" if lacking else "CapacityIsFound"
        if lacking and not self._start_for(lacking):
            _, pause = self._retry.get(uid, (0.0, _FIRST_RETRY))
            self._retry[uid] = self._clock() + pause, min(2 * pause, _LAST_RETRY)
            said = "Capacity is not found, CA will try to find it later."
            self._say(request, "Provisioned", "CapacityIsNotFound", said, holds=False)
            return
        self._provisioned[uid] = self._clock()
        self._say(request, "Provisioned", reason, "Capacity is found in the cluster")

    def _start_for(self, lacking: list[Object]) -> bool:
        for pool in self._pools:
            count = self._needed(lacking, pool)
            size = self._sizes[pool.name]
            if count and size + count <= min(pool.most, pool.stock):
                self._ask(pool, count)
                return True
        return False

    def _pods_of(self, request: Object) -> list[Object]:
        space = request["metadata"]["namespace"]
        found = []
        for each in _pod_sets(request):
            name = each["podTemplateRef"]["name"]
            template = self._store.get(POD_TEMPLATES, space, name)["template"]
            found += [{"spec": template["spec"]}] * each["count"]
        return found

    def _say(
        self, request: Object, kind: str, reason: str, message: str, *, holds: bool = True
    ) -> Object:
        known = request.get("status") or {}
        status = with_condition(known, kind, reason, message, holds=holds)
        return self._store.set_status(PROVISIONING_REQUESTS, request, status)

    # Pods without a request.

    def _scale_up(self) -> None:
        waiting = [pod for pod in self._store.items(PODS) if _is_unschedulable(pod)]
        for pod in waiting:
            if name := _request_of(pod):
                # An event without a reason (pods_filter.go).
                said = "Unschedulable pod didn't trigger scale-up, because it's consuming "
                said += f"ProvisioningRequest {pod['metadata']['namespace']}/{name}"
                self._recorder.record(PODS, pod, "", said)
        lacking = _unplaced([pod for pod in waiting if not _request_of(pod)], self._rooms())
        if not lacking:
            return
        whys: Counter[str] = Counter()
        for pool in self._pools:
            why = self._grow(pool, lacking)
            if not why:
                return
            whys[why] += 1
        said = ", ".join(f"{count} {why}" for why, count in sorted(whys.items()))
        for pod in lacking:
            told = f"pod didn't trigger scale-up: {said}"
            self._recorder.record(PODS, pod, "NotTriggerScaleUp", told)

    def _grow(self, pool: Pool, lacking: list[Object]) -> str:
        """Starts as many nodes as the pool may have and Azure has; "", or why it starts none."""
        count, size = self._needed(lacking, pool), self._sizes[pool.name]
        if not count:
            return "node(s) didn't match Pod's node affinity/selector"
        if self._clock() < self._backoff.get(pool.name, 0.0):
            return "in backoff after failed scale-up"
        if size >= pool.most:
            return "max node group size reached"
        wanted = min(count, pool.most - size)
        there = max(0, min(wanted, pool.stock - size))
        if there < wanted:
            self._backoff[pool.name] = self._clock() + _BACKOFF
        self._ask(pool, there)
        told = f"{pool.name} {size}->{size + wanted} (max: {pool.most})"
        for pod in lacking:
            said = f"pod triggered scale-up: [{{{told}}}]"
            self._recorder.record(PODS, pod, "TriggeredScaleUp", said, when=at(self._clock()))
        return ""

    def _scale_down(self, pool: Pool) -> None:
        """Deletes what no pod has used for a while, unless its annotation forbids it; no pod waits
        for it that it would fit (scaledown/eligibility: HasNoScaleDownAnnotation)."""
        used = {pod["spec"].get("nodeName") for pod in self._store.items(PODS) if not is_ended(pod)}
        for node in self._store.items(NODES):
            about = node["metadata"]
            name, notes = about["name"], about.get("annotations") or {}
            if not name.startswith(f"{pool.name}-"):
                continue
            since = self._unneeded.setdefault(name, self._clock())
            if name in used or notes.get(_KEPT) == "true":
                del self._unneeded[name]
            elif self._clock() >= since + pool.idle and self._sizes[pool.name] > pool.least:
                self.lose(pool, name)

    def lose(self, pool: Pool, name: str) -> None:
        """A node goes, as one that Azure takes back does too."""
        self._store.remove(NODES, self._store.get(NODES, "", name))
        self._sizes[pool.name] -= 1
        self._coming = [each for each in self._coming if each.name != name]

    # What fits where.

    def _rooms(self) -> list[_Room]:
        """The nodes as they are taken to be: those that come, and those that are not ready, are
        like others of their pool. A node whose GPUs are not there is not ready, and so is one with
        a startup taint; of other resources that come late nobody knows (gpu_processor.go, FAQ)."""
        pods = self._store.items(PODS)
        rooms = []
        for node in self._store.items(NODES):
            name = node["metadata"]["name"]
            pool = next((each for each in self._pools if name.startswith(f"{each.name}-")), None)
            taken_for = node if pool is None or _is_ready(node) else self._template(pool)
            rooms.append(_Room(taken_for, used_of(node, pods)))
        rooms += [_Room(self._template(each.pool)) for each in self._coming if not each.is_there]
        for request in self._store.items(PROVISIONING_REQUESTS):
            if is_true(request, "Provisioned") and not is_true(request, "BookingExpired"):
                booked = self._pods_of(request)[self._consumers(request) :]
                _unplaced(booked, rooms)
        return rooms

    def _template(self, pool: Pool) -> Object:
        """A node that is there stands for those to come; where none is, AKS knows its size, and
        nobody has seen that it knows of InfiniBand."""
        for node in self._store.items(NODES):
            name = node["metadata"]["name"]
            if name.startswith(f"{pool.name}-") and _is_ready(node):
                return {**node, "spec": {"taints": list(pool.node.taints)}}
        known = {key: each for key, each in pool.node.resources.items() if key != "rdma/ib"}
        return {
            "metadata": {"name": pool.name, "labels": dict(pool.node.labels)},
            "spec": {"taints": list(pool.node.taints)},
            "status": {"allocatable": known},
        }

    def _needed(self, pods: list[Object], pool: Pool) -> int:
        """Number of further nodes of a pool that all of the pods take; 0 if they do not help."""
        count, left = 0, pods
        while left:
            after = _unplaced(left, [_Room(self._template(pool))])
            if len(after) == len(left):
                return 0
            count, left = count + 1, after
        return count


def _unplaced(pods: Iterable[Object], rooms: list[_Room]) -> list[Object]:
    """The pods that fit nowhere; the rooms of the others are then used."""
    left = []
    for pod in pods:
        wanted = requests_of(pod["spec"])
        for room in rooms:
            if not unsuitable(pod, room.node) and not short_of(wanted, room.node, room.used):
                room.used.update(wanted)
                break
        else:
            left.append(pod)
    return left


def _is_ready(node: Object) -> bool:
    taints = node["spec"].get("taints") or ()
    if any(each["key"].startswith(STARTUP_TAINT) for each in taints):
        return False
    has = node["status"].get("allocatable") or {}
    labels = node["metadata"].get("labels") or {}
    return _GPU_LABEL not in labels or has.get(_GPU, "0") != "0"


def _is_unschedulable(pod: Object) -> bool:
    if pod["spec"].get("nodeName") or is_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return False
    return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"


def _request_of(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(CONSUMES, ""))


def _pod_sets(request: Object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request["spec"]["podSets"]
    return found
