"""The autoscaler of AKS, with a given clock: it starts nodes for unschedulable pods and for
ProvisioningRequests. Its nodes always arrive; it deletes none, and reserves no capacity.

Sources, each in kubernetes/autoscaler, cluster-autoscaler: FAQ.md (events, ProvisioningRequest),
provisioningrequest/besteffortatomic/provisioning_class.go, conditions.go, processors/provreq
(injector.go, pods_filter.go), cloudprovider/azure/azure_scale_set.go (AtomicIncreaseSize).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fairway_simulator.kubernetes.api.store import Object, Store
    from fairway_simulator.kubernetes.kubelet.kubelet import NodeSpec

CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
AT_ONCE = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
_ALL = "all"
_RETRY = 60.0  # seconds until a request is retried


@dataclass
class Pool:
    """Nodes that are started on demand: from `least`, which exist from the start, to `most`,
    limited by Azure's `stock`. A node is ready `boot` seconds after its request."""

    name: str
    node: NodeSpec
    least: int = 0
    most: int = 1
    stock: int = 1000
    boot: float = 240.0


@dataclass
class _Room:
    """A node, and the resources in use on it."""

    node: Object
    used: Counter[str] = field(default_factory=Counter)


class Autoscaler(Controller):
    """The autoscaler; `launch` creates a node."""

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
        self._coming: list[tuple[float, Pool, NodeSpec]] = []
        self._sizes = {pool.name: pool.least for pool in pools}
        self._retry: dict[str, float] = {}

    def first(self) -> list[NodeSpec]:
        """Returns the nodes that exist from the start."""
        return [
            replace(pool.node, name=f"{pool.name}-{number}")
            for pool in self._pools
            for number in range(pool.least)
        ]

    def due(self) -> Iterator[str]:
        """Returns a key every time, as the autoscaler polls."""
        return iter([_ALL])

    def reconcile(self, _: str) -> None:
        """Polls once: launches the nodes that are due, then handles a request and the pods."""
        now, coming = self._clock(), self._coming
        self._coming = [each for each in coming if each[0] > now]
        for when, _pool, spec in coming:
            if when <= now:
                self._launch(spec)
        if (request := self._next_request()) is not None:
            self._provision(request)
        self._scale_up()

    def _ask(self, pool: Pool, count: int) -> None:
        for _ in range(count):
            spec = replace(pool.node, name=f"{pool.name}-{self._sizes[pool.name]}")
            self._coming.append((self._clock() + pool.boot, pool, spec))
            self._sizes[pool.name] += 1

    def _next_request(self) -> Object | None:
        """Returns one request per poll; a failed one is due again after a while (injector.go)."""
        for request in self._store.items(PROVISIONING_REQUESTS):
            again = self._retry.get(request["metadata"]["uid"], 0.0)
            known = request["spec"]["provisioningClassName"] == AT_ONCE
            if known and not is_true(request, "Provisioned") and self._clock() >= again:
                return request
        return None

    def _provision(self, request: Object) -> None:
        """Starts nodes for all pods of a request, or none. The request is Provisioned once the
        nodes are requested, not when they are ready (provisioning_class.go)."""
        said = "ProvisioningRequest is accepted by ClusterAutoscaler"
        request = self._say(request, "Accepted", "Accepted", said)
        lacking = _unplaced(self._pods_of(request), self._rooms())
        if lacking and not self._start_for(lacking):
            self._retry[request["metadata"]["uid"]] = self._clock() + _RETRY
            said = "Capacity is not found, CA will try to find it later."
            self._say(request, "Provisioned", "CapacityIsNotFound", said, holds=False)
            return
        reason = "CapacityIsProvisioned" if lacking else "CapacityIsFound"
        self._say(request, "Provisioned", reason, "Capacity is found in the cluster")

    def _start_for(self, lacking: list[Object]) -> bool:
        for pool in self._pools:
            count = self._needed(lacking, pool)
            if count and self._sizes[pool.name] + count <= min(pool.most, pool.stock):
                self._ask(pool, count)
                return True
        return False

    def _pods_of(self, request: Object) -> list[Object]:
        space = request["metadata"]["namespace"]
        found = []
        for each in request["spec"]["podSets"]:
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

    def _scale_up(self) -> None:
        """Starts nodes for unschedulable pods, except for pods of a request (pods_filter.go)."""
        waiting = [pod for pod in self._store.items(PODS) if _is_unschedulable(pod)]
        for pod in waiting:
            if name := _request_of(pod):
                # This event has no reason.
                said = "Unschedulable pod didn't trigger scale-up, because it's consuming "
                said += f"ProvisioningRequest {pod['metadata']['namespace']}/{name}"
                self._recorder.record(PODS, pod, "", said)
        lacking = _unplaced([pod for pod in waiting if not _request_of(pod)], self._rooms())
        whys: Counter[str] = Counter()
        for pool in self._pools if lacking else ():
            why = self._grow(pool, lacking)
            if not why:
                return
            whys[why] += 1
        said = ", ".join(f"{count} {why}" for why, count in sorted(whys.items()))
        for pod in lacking:
            told = f"pod didn't trigger scale-up: {said}"
            self._recorder.record(PODS, pod, "NotTriggerScaleUp", told)

    def _grow(self, pool: Pool, lacking: list[Object]) -> str:
        """Starts nodes as pool and stock permit. Returns the reason if none starts, or ""."""
        count, size = self._needed(lacking, pool), self._sizes[pool.name]
        if not count:
            return "node(s) didn't match Pod's node affinity/selector"
        if size >= min(pool.most, pool.stock):
            known = size >= pool.most
            return "max node group size reached" if known else "in backoff after failed scale-up"
        wanted = min(size + count, pool.most)
        self._ask(pool, min(wanted, pool.stock) - size)
        told = f"{pool.name} {size}->{wanted} (max: {pool.most})"
        for pod in lacking:
            said = f"pod triggered scale-up: [{{{told}}}]"
            self._recorder.record(PODS, pod, "TriggeredScaleUp", said, when=at(self._clock()))
        return ""

    def _rooms(self) -> list[_Room]:
        """Returns the existing nodes and those being started."""
        pods = self._store.items(PODS)
        rooms = [_Room(node, used_of(node, pods)) for node in self._store.items(NODES)]
        return rooms + [_Room(_template(pool)) for _, pool, _ in self._coming]

    def _needed(self, pods: list[Object], pool: Pool) -> int:
        """Returns how many more nodes of a pool hold all pods; 0 if some pods never fit."""
        count, left = 0, pods
        while left:
            after = _unplaced(left, [_Room(_template(pool))])
            if len(after) == len(left):
                return 0
            count, left = count + 1, after
        return count


def _template(pool: Pool) -> Object:
    return {
        "metadata": {"name": pool.name, "labels": dict(pool.node.labels)},
        "spec": {"taints": list(pool.node.taints)},
        "status": {"allocatable": dict(pool.node.resources)},
    }


def _unplaced(pods: Iterable[Object], rooms: list[_Room]) -> list[Object]:
    """Places pods in rooms and returns those that fit in none."""
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


def _is_unschedulable(pod: Object) -> bool:
    if pod["spec"].get("nodeName") or is_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return False
    return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"


def _request_of(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(CONSUMES, ""))
