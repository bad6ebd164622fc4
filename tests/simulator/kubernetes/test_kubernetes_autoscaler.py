"""Autoscaler that takes minutes of simulated time, and Kueue's check that requests its nodes.

Sources are named beside the rules, in `autoscaler.py` and `provisioning.py` of `controllers`.
"""

from typing import Any

from fairway_agent.control import Part
from fairway_agent.kubernetes.controller import ask_again
from fairway_agent.kubernetes.objects import Objects
from fairway_core.kubernetes import queues
from fairway_core.target import Target
from fairway_simulator.kubernetes import NodeSpec, Pool
from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    KUEUE,
    NAMESPACES,
    NODES,
    PODS,
    PROVISIONING_REQUESTS,
)
from fairway_simulator.kubernetes.api.store import Store
from fairway_simulator.kubernetes.controllers.autoscaler import Autoscaler
from fairway_simulator.kubernetes.controllers.jobs import Jobs
from fairway_simulator.kubernetes.controllers.kueue import Kueue, Provisioning
from fairway_simulator.kubernetes.controllers.scheduler import Scheduler
from fairway_simulator.kubernetes.events import condition_of

SPACE = "training"
HAS = {"cpu": "96", "memory": "1700Gi", "nvidia.com/gpu": "8", "rdma/ib": "8"}


class Cloud:
    """A pool, Kueue and the controllers on a bare store, whose clock advances only in `wait`."""

    def __init__(self, *, provisions: bool = True, **pool: int) -> None:
        self.now, self.store = 1000.0, Store()
        self.pool = Pool("nd", NodeSpec("", HAS, {"agentpool": "nd"}), **{"most": 4, **pool})
        self.admission = Admission(self.store)
        space = self.admission.new(NAMESPACES, {"metadata": {"name": SPACE}}, "", "")
        self.store.create(NAMESPACES, space)
        kueue = Kueue(self.store)
        self.admission.mutators.append(kueue.suspend)
        autoscaler = Autoscaler(self.store, [self.pool], lambda: self.now, self.launch)
        self.controllers = [
            kueue,
            *([Provisioning(self.store)] if provisions else []),
            Jobs(self.store, self.admission),
            Scheduler(self.store),
            autoscaler,
        ]
        for spec in autoscaler.first():
            self.launch(spec)
        self._queue()
        self.settle()

    def _queue(self) -> None:
        """Creates the objects of an environment for a pool that scales."""
        access = {"namespace": SPACE, "image": "a", "shared": "/data/fairway", "queue": "nd"}
        access |= {"volumes": {"data": "data"}, "selector": {"agentpool": "nd"}, "resources": HAS}
        nodes = {"min": self.pool.least, "max": self.pool.most}
        facts = {"name": "nd", "engine": "kubernetes", "nodes": nodes, "mounts": {"data": "/data"}}
        kinds = {each.kind: each for each in KUEUE}
        for each in queues.objects([Target.model_validate({**facts, "kubernetes": access})]):
            kind = kinds[each["kind"]]
            self.store.create(kind, self.admission.new(kind, each, SPACE, "Strict"))

    def launch(self, spec: NodeSpec) -> None:
        status = {"allocatable": {**spec.resources, "pods": "110"}}
        about = {"name": spec.name, "uid": spec.name, "labels": dict(spec.labels)}
        self.store.create(NODES, {"metadata": about, "spec": {}, "status": status})

    def settle(self) -> None:
        """Runs the controllers until nothing changes any more."""
        for _ in range(100):
            before = self.store.version
            for each in self.controllers:
                changes = self.store.everything()
                keys = {key for change in changes for key in each.concerned(change)}
                for key in sorted(keys | {*each.due()}):
                    each.reconcile(key)
            if self.store.version == before:
                return
        raise AssertionError("it does not come to rest")

    def wait(self, minutes: float) -> None:
        self.now += 60 * minutes
        self.settle()

    def submit(self, nodes: int, *, queue: str = "nd") -> None:
        pod = {
            "restartPolicy": "Never",
            "nodeSelector": {"agentpool": "nd"},
            "containers": [{"name": "task", "image": "a", "resources": {"limits": HAS}}],
        }
        spec = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}
        spec |= {"backoffLimit": 0, "template": {"spec": pod}}
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        sent = {"metadata": {"name": "job", "labels": labels}, "spec": spec}
        self.store.create(JOBS, self.admission.new(JOBS, sent, SPACE, "Strict"))
        self.settle()

    def lose(self, name: str) -> None:
        """Removes a node and its pods, which their Job replaces."""
        self.store.remove(NODES, self.store.get(NODES, "", name))
        for pod in self.store.items(PODS):
            if pod["spec"].get("nodeName") == name:
                self.store.remove(PODS, pod)
        self.settle()

    def patch(self, _: str, name: str, change: dict[str, Any]) -> None:
        """Removes annotations of a pod, like an API server."""
        pod = self.store.get(PODS, SPACE, name)
        gone = change["metadata"]["annotations"]
        notes = {k: v for k, v in pod["metadata"]["annotations"].items() if k not in gone}
        self.store.replace(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": notes}})

    @property
    def suspended(self) -> bool:
        return bool(self.store.get(JOBS, SPACE, "job")["spec"].get("suspend"))

    @property
    def placed(self) -> list[str]:
        nodes = (pod["spec"].get("nodeName") for pod in self.store.items(PODS))
        return sorted(filter(None, nodes))

    def events(self, reason: str) -> list[str]:
        return [each["message"] for each in self.store.items(EVENTS) if each["reason"] == reason]


def test_autoscaler_starts_available_nodes_for_pods_without_a_request() -> None:
    cloud = Cloud(least=1, stock=3)
    cloud.submit(4, queue="")
    assert cloud.placed == ["nd-0"]  # this node waits for the others, and costs money
    said = "pod triggered scale-up: [{nd 1->4 (max: 4)}]"
    assert cloud.events("TriggeredScaleUp") == [said] * 3
    cloud.wait(5)
    assert cloud.placed == ["nd-0", "nd-1", "nd-2"]  # some, but not all
    why = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
    assert cloud.events("NotTriggerScaleUp") == [why]
    cloud.pool.stock = 9
    cloud.wait(1)
    cloud.wait(5)
    assert len(cloud.placed) == 4


def test_autoscaler_starts_all_nodes_of_a_request_or_none() -> None:
    cloud = Cloud(least=1, stock=2)
    cloud.submit(3)
    # Two of its three nodes are available: none is started, and its pods hold none.
    assert (cloud.suspended, cloud.placed) == (True, [])
    cloud.pool.stock = 9
    cloud.wait(0.5)
    assert cloud.suspended, "it is tried again after a while"
    cloud.wait(1)
    # The request is met before its nodes are up: one pod runs, and waits for the others.
    assert (cloud.suspended, cloud.placed) == (False, ["nd-0"])
    cloud.wait(5)
    assert cloud.placed == ["nd-0", "nd-1", "nd-2"]
    cloud.lose("nd-1")
    cloud.wait(60)
    assert (len(cloud.placed), cloud.events("TriggeredScaleUp")) == (2, [])
    assert "it's consuming ProvisioningRequest" in cloud.events("")[0]
    # Without the request, its pods are treated like any others.
    jobs, pods = {"job": cloud.store.get(JOBS, SPACE, "job")}, cloud.store.items(PODS)
    part = Part("tasks", 0, [0], 3, 8, job="job")
    ask_again(cloud, Objects(jobs, {"job": pods}), [part], 9e9)  # type: ignore[arg-type]
    cloud.settle()
    cloud.wait(5)
    assert cloud.placed == ["nd-0", "nd-2", "nd-3"]


def test_autoscaler_starts_no_node_for_a_request_that_fits() -> None:
    cloud = Cloud(least=2)
    cloud.submit(2)
    (request,) = cloud.store.items(PROVISIONING_REQUESTS)
    assert condition_of(request, "Provisioned")["reason"] == "CapacityIsFound"
    assert cloud.placed == ["nd-0", "nd-1"]


def test_kueue_queue_with_an_inactive_admission_check_admits_nothing() -> None:
    """For example if Kueue started before the cluster had the kind ProvisioningRequest."""
    cloud = Cloud(provisions=False)
    cloud.submit(1)
    (queue,) = cloud.store.items(CLUSTER_QUEUES)
    active = condition_of(queue, "Active")
    assert (active["status"], active["reason"]) == ("False", "AdmissionCheckInactive")
    assert active["message"].endswith("references inactive AdmissionCheck(s): fairway-nodes")
    assert cloud.suspended
