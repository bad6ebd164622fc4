"""An autoscaler that takes minutes by its own clock, and Kueue's check that asks it for nodes.

Sources are named where the rules are, in `autoscaler.py` and `provisioning.py` of `controllers`.
"""

from datetime import datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairway_agent import control
from fairway_agent.control import Part
from fairway_agent.fanout.sshd_mesh import Meeting
from fairway_agent.kubernetes import gang
from fairway_agent.kubernetes.controller import ask_again
from fairway_agent.kubernetes.gang import Gang, Member
from fairway_agent.kubernetes.node_health import NodeHealth
from fairway_agent.kubernetes.objects import Objects, scaling
from fairway_agent.kubernetes.settings import patience
from fairway_agent.kubernetes.task_state import lacking
from fairway_boot import files
from fairway_boot.files import Fault
from fairway_core.kubernetes import queues
from fairway_core.target import Target
from fairway_simulator.kubernetes import NodeSpec, Pool, events
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
    WORKLOADS,
)
from fairway_simulator.kubernetes.api.store import Store
from fairway_simulator.kubernetes.controllers.autoscaler import CONSUMES, STARTUP_TAINT, Autoscaler
from fairway_simulator.kubernetes.controllers.jobs import Jobs
from fairway_simulator.kubernetes.controllers.kueue import Kueue
from fairway_simulator.kubernetes.controllers.provisioning import Provisioning
from fairway_simulator.kubernetes.controllers.scheduler import Scheduler
from fairway_simulator.kubernetes.events import at, condition_of, is_true

SPACE = "training"
HAS = {"cpu": "96", "memory": "1700Gi", "nvidia.com/gpu": "8", "rdma/ib": "8", "pods": "110"}
GPUS = {"agentpool": "nd", "accelerator": "nvidia"}
CPUS = {"agentpool": "nd"}
STARTS = {"key": f"{STARTUP_TAINT}drivers", "effect": "NoSchedule"}
MINUTE = 60.0


class Cloud:
    """A pool, Kueue and the controllers on a bare store, whose time goes on only in `wait`."""

    def __init__(self, pool: Pool, *, kueue: bool = True, provisions: bool = True) -> None:
        self.now, self.store, self.pool = 1000.0, Store(), pool
        self.admission = Admission(self.store)
        space = self.admission.new(NAMESPACES, {"metadata": {"name": SPACE}}, "", "")
        self.store.create(NAMESPACES, space)
        kueue_ = Kueue(self.store)
        self.admission.mutators.append(kueue_.suspend)
        self.autoscaler = Autoscaler(self.store, [pool], lambda: self.now, self.launch)
        self.controllers = [
            *([kueue_] if kueue else []),
            *([Provisioning(self.store)] if kueue and provisions else []),
            Jobs(self.store, self.admission),
            Scheduler(self.store),
            self.autoscaler,
        ]
        for spec in self.autoscaler.first():
            self.launch(spec)
        if kueue:
            self._queue()
        self.settle()

    def _queue(self) -> None:
        """Makes the objects of an environment for a pool that scales."""
        nodes = {"min": self.pool.least, "max": self.pool.most}
        access = {"namespace": SPACE, "image": "a", "shared": "/data/fairway", "queue": "nd"}
        access |= {"volumes": {"data": "data"}, "selector": {"agentpool": "nd"}, "rdma": "rdma/ib"}
        own = {key: amount for key, amount in HAS.items() if key != "pods"}
        access |= {"resources": own}
        facts = {"name": "nd", "engine": "kubernetes", "nodes": nodes, "mounts": {"data": "/data"}}
        kinds = {each.kind: each for each in KUEUE}
        for each in queues.objects([Target.model_validate({**facts, "kubernetes": access})]):
            kind = kinds[each["kind"]]
            self.store.create(kind, self.admission.new(kind, each, SPACE, "Strict"))

    def launch(self, spec: NodeSpec) -> None:
        has = dict(spec.resources)
        status = {"allocatable": has, "capacity": has, "conditions": []}
        about: dict[str, Any] = {"name": spec.name, "uid": spec.name, "labels": dict(spec.labels)}
        about["creationTimestamp"] = at(self.now)
        node = {"metadata": about, "spec": {"taints": list(spec.taints)}, "status": status}
        known = self.store.find(NODES, "", spec.name)
        if known is None:
            self.store.create(NODES, node)
        else:
            self.store.replace(NODES, {**node, "metadata": known["metadata"]})

    def settle(self) -> None:
        """Until nothing changes any more."""
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
        for _ in range(round(minutes * 2)):
            self.now += MINUTE / 2
            self.settle()

    def submit(self, name: str, nodes: int, *, queue: str = "nd") -> None:
        wanted = {key: amount for key, amount in HAS.items() if key != "pods"}
        if "nvidia.com/gpu" not in self.pool.node.resources:
            del wanted["nvidia.com/gpu"]
        pod = {
            "restartPolicy": "Never",
            "nodeSelector": {"agentpool": "nd"},
            "containers": [{"name": "task", "image": "a", "resources": {"limits": wanted}}],
        }
        spec = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}
        spec |= {"backoffLimit": 0, "template": {"spec": pod}}
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        sent = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.store.create(JOBS, self.admission.new(JOBS, sent, SPACE, "Strict"))
        self.settle()

    def lose(self, name: str) -> None:
        """A node goes with its pods, which their Job replaces."""
        self.autoscaler.lose(self.pool, name)
        for pod in self.store.items(PODS):
            if pod["spec"].get("nodeName") == name:
                self.store.remove(PODS, pod)
        self.settle()

    def seen(self, job: str) -> Objects:
        """The pods as a run's controller sees them: nobody's kubelet says here that one runs."""
        pods = [
            {**pod, "status": {**pod["status"], "phase": "Running"}}
            if pod["spec"].get("nodeName")
            else pod
            for pod in self.store.items(PODS)
        ]
        jobs = {job: self.store.get(JOBS, SPACE, job)}
        return Objects(jobs, {job: pods}, scaling=scaling(self))  # type: ignore[arg-type]

    def patch(self, _: str, __: str, name: str, change: dict[str, Any]) -> None:
        """As an API server removes annotations of a pod."""
        pod = self.store.get(PODS, SPACE, name)
        gone = change["metadata"]["annotations"]
        notes = {k: v for k, v in pod["metadata"]["annotations"].items() if k not in gone}
        self.store.replace(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": notes}})

    def check_nodes(self) -> None:
        """As the DaemonSet does on each node whose adapters come late."""
        for node in self.store.items(NODES):
            name = node["metadata"]["name"]
            api: Any = SimpleNamespace(get=lambda *_, name=name, **__: self._node(name))
            api.call = lambda *given: self._patch(given[1], given[2])
            NodeHealth(api, name, ["true"], ["rdma/ib"], clock=lambda: self.now).look()

    def _node(self, name: str) -> dict[str, Any]:
        return self.store.get(NODES, "", name)

    def _patch(self, path: str, change: dict[str, Any]) -> None:
        if not path.endswith("/status"):
            node = self._node(path.rpartition("/")[2])
            notes = {**node["metadata"].get("annotations", {}), **change["metadata"]["annotations"]}
            kept = {key: text for key, text in notes.items() if text is not None}
            metadata = {**node["metadata"], "annotations": kept}
            self.store.replace(NODES, {**node, "metadata": metadata})

    def suspended(self, name: str) -> bool:
        return self.store.get(JOBS, SPACE, name)["spec"].get("suspend", False)

    def placed(self) -> list[str]:
        return sorted(
            pod["spec"]["nodeName"] for pod in self.store.items(PODS) if pod["spec"].get("nodeName")
        )

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.store.items(PROVISIONING_REQUESTS)

    def check(self) -> tuple[str, str]:
        (workload,) = self.store.items(WORKLOADS)
        (check,) = workload["status"]["admissionChecks"]
        return check["state"], check["message"]

    def events(self, reason: str) -> list[str]:
        return [each["message"] for each in self.store.items(EVENTS) if each["reason"] == reason]

    def list(self, _: str, __: str, query: dict[str, str]) -> list[dict[str, Any]]:
        """The events of a reason, as an API server has them."""
        reason = query["fieldSelector"].rpartition("reason=")[2]
        return [each for each in self.store.items(EVENTS) if each["reason"] == reason]


def pool(labels: dict[str, str] | None = None, **changes: Any) -> Pool:
    return Pool("nd", NodeSpec("", HAS, labels or GPUS), **{"least": 1, "most": 4, **changes})


def infiniband_alone(**changes: Any) -> Pool:
    """Nodes without GPUs, whose adapters come with their drivers."""
    has = {key: amount for key, amount in HAS.items() if key != "nvidia.com/gpu"}
    return Pool("nd", NodeSpec("", has, CPUS), **{"least": 1, "most": 9, **changes})


def gang_of(cloud: Cloud, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Gang:
    """Makes the gang of a task on two nodes, of which the first is there; times are the cloud's."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(cloud.now, tz)

    monkeypatch.setattr(events, "datetime", Clock)
    monkeypatch.setattr(gang, "time", SimpleNamespace(monotonic=lambda: cloud.now))
    meeting = Meeting("job/0", folder / "ssh", folder / "key", "serve")
    files.write_json(folder / "0.json", Member("u", "pod", "nd-0", "10.0.0.1").to_json())
    return Gang(
        folder, 2, meeting, folder, "0", 0, patience(1, 4), began=cloud.now, first=cloud.now
    )


def gathered(cloud: Cloud, group: Gang) -> float:
    """Seconds in which a task on two nodes has them, as the run's controller sees and does it."""
    part, began = Part("tasks", 0, [0], 2, 8, job="job"), cloud.now
    while len(cloud.placed()) < 2:
        seen = cloud.seen("job")
        why, since = lacking(seen, part)
        assert why.startswith("1 of its 2 pods run: waiting for a node: ")
        assert why.endswith("; the pool scales up")
        control.note_lacking(group.run, 0, "0", why, since)
        assert not group.is_whole()
        ask_again(cloud, seen, [part], cloud.now)  # type: ignore[arg-type]
        cloud.wait(1)
    return cloud.now - began


class TestPodsAlone:
    """Without Kueue: the autoscaler follows pods that have no node."""

    def test_a_node_is_ready_before_its_gpus_are_there(self) -> None:
        cloud = Cloud(pool(), kueue=False)
        cloud.submit("job", 4, queue="")
        assert cloud.placed() == ["nd-0"]  # which waits for the others, and is paid for
        assert cloud.autoscaler.asked["nd"] == 3
        said = "pod triggered scale-up: [{nd 1->4 (max: 4)}]"
        assert cloud.events("TriggeredScaleUp") == [said] * 3
        cloud.wait(5)
        assert len(cloud.store.items(NODES)) == 4
        assert cloud.placed() == ["nd-0"]
        cloud.wait(10)
        assert cloud.placed() == ["nd-0", "nd-1", "nd-2", "nd-3"]
        assert cloud.autoscaler.asked["nd"] == 3

    @pytest.mark.parametrize(
        ("at_first", "asked"), [([], 8), ([STARTS], 2)], ids=["nothing", "startup-taint"]
    )
    def test_nodes_are_bought_beyond_need_while_adapters_are_not_there(
        self, at_first: list[dict[str, str]], asked: int
    ) -> None:
        """A node that is Ready and does not fit is no node to come: only GPUs are known to be late.
        A startup taint says it of other resources."""
        cloud = Cloud(infiniband_alone(at_first=at_first), kueue=False)
        cloud.submit("job", 3, queue="")
        cloud.wait(15)
        assert cloud.placed() == ["nd-0", "nd-1", "nd-2"]
        assert cloud.autoscaler.asked["nd"] == asked

    def test_what_azure_does_not_have_is_not_started_and_tried_again(self) -> None:
        cloud = Cloud(pool(stock=3), kueue=False)
        cloud.submit("job", 4, queue="")
        cloud.wait(1)
        assert cloud.autoscaler.asked["nd"] == 2  # not all, and not none
        said = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
        assert said in cloud.events("NotTriggerScaleUp")
        cloud.pool.stock = 9
        cloud.wait(20)
        assert len(cloud.placed()) == 4
        assert cloud.autoscaler.asked["nd"] == 3

    def test_a_node_that_never_comes_is_given_up_after_half_an_hour_and_asked_for_again(
        self,
    ) -> None:
        cloud = Cloud(pool(lost=1), kueue=False)
        cloud.submit("job", 2, queue="")
        cloud.wait(29)
        assert cloud.autoscaler.asked["nd"] == 1
        cloud.wait(16)
        assert cloud.autoscaler.asked["nd"] == 2
        assert len(cloud.placed()) == 2

    def test_a_task_does_not_give_up_while_nodes_are_tried(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cloud = Cloud(pool(lost=2), kueue=False)
        group = gang_of(cloud, tmp_path, monkeypatch)
        cloud.submit("job", 2, queue="")
        assert gathered(cloud, group) > group.patience
        cloud.now += group.patience  # but for ever it is not waited for
        with pytest.raises(Fault, match="50 min without another node: 1 of its 2 pods run"):
            group.is_whole()

    @pytest.mark.parametrize("is_checked", [False, True])
    def test_a_node_is_not_deleted_while_its_drivers_are_built(self, is_checked: bool) -> None:
        """The autoscaler takes it for one that helps nobody: its health check keeps it."""
        late = {"idle": 10 * MINUTE, "drivers": 20 * MINUTE, "most": 3}
        cloud = Cloud(infiniband_alone(**late), kueue=False)
        cloud.submit("job", 3, queue="")
        for _ in range(6):
            cloud.wait(5)
            if is_checked:
                cloud.check_nodes()
        assert (cloud.placed() == ["nd-0", "nd-1", "nd-2"]) is is_checked
        assert (cloud.autoscaler.asked["nd"] == 2) is is_checked
        # Later it goes like any other.
        for pod in cloud.store.items(PODS):
            cloud.store.remove(PODS, pod)
        for job in cloud.store.items(JOBS):
            cloud.store.remove(JOBS, job)
        cloud.wait(45)
        assert len(cloud.store.items(NODES)) == 1

    def test_a_pool_without_nodes_starts_none_for_infiniband(self) -> None:
        cloud = Cloud(infiniband_alone(least=0), kueue=False)
        cloud.submit("job", 1, queue="")
        cloud.wait(5)
        assert cloud.autoscaler.asked["nd"] == 0


class TestRequests:
    """With Kueue: all nodes of a job are asked for at once."""

    def test_a_task_waits_suspended_until_all_of_its_nodes_are_there_or_being_made(self) -> None:
        cloud = Cloud(pool(stock=3))
        cloud.submit("job", 4)
        assert cloud.suspended("job")
        cloud.wait(3)
        # Three of its four nodes could be had: none is started, and its pods hold none.
        assert cloud.suspended("job")
        assert (cloud.placed(), cloud.autoscaler.asked["nd"]) == ([], 0)
        (request,) = cloud.requests
        assert is_true(request, "Accepted")
        assert condition_of(request, "Provisioned")["reason"] == "CapacityIsNotFound"
        said = "Capacity is not found, CA will try to find it later."
        assert cloud.check() == ("Pending", said)
        cloud.pool.stock = 9
        cloud.wait(10)
        assert not cloud.suspended("job")
        (request,) = cloud.requests
        assert condition_of(request, "Provisioned")["reason"] == "CapacityIsProvisioned"
        cloud.wait(10)
        assert len(cloud.placed()) == 4
        assert cloud.autoscaler.asked["nd"] == 3

    def test_what_is_there_is_not_bought(self) -> None:
        cloud = Cloud(pool(least=2))
        cloud.submit("job", 2)
        (request,) = cloud.requests
        assert condition_of(request, "Provisioned")["reason"] == "CapacityIsFound"
        assert len(cloud.placed()) == 2
        cloud.wait(1)
        assert cloud.autoscaler.asked["nd"] == 0
        (request,) = cloud.requests
        assert condition_of(request, "BookingExpired")["reason"] == "CapacityBookingConsumed"

    def test_a_request_is_met_before_its_nodes_are_there(self) -> None:
        """Its class is called best effort for that: one pod runs, and waits for the others."""
        cloud = Cloud(pool())
        cloud.submit("job", 4)
        assert cloud.check()[0] == "Ready"
        assert not cloud.suspended("job")
        assert cloud.placed() == ["nd-0"]
        cloud.wait(14.5)
        assert len(cloud.placed()) == 4

    def test_pods_whose_nodes_were_asked_for_start_no_others(self) -> None:
        """Though a node is Ready before its adapters are there."""
        cloud = Cloud(infiniband_alone())
        cloud.submit("job", 3)
        pods = cloud.store.items(PODS)
        (request,) = cloud.requests
        notes = {pod["metadata"]["annotations"][CONSUMES] for pod in pods}
        assert notes == {request["metadata"]["name"]}
        cloud.wait(15)
        assert cloud.placed() == ["nd-0", "nd-1", "nd-2"]
        assert cloud.autoscaler.asked["nd"] == 2
        assert cloud.events("TriggeredScaleUp") == []
        assert "it's consuming ProvisioningRequest" in cloud.events("")[0]
        (request,) = cloud.requests
        assert is_true(request, "BookingExpired")  # of an admitted one nobody minds
        assert cloud.check()[0] == "Ready"

    def test_a_node_that_never_comes_is_asked_for_again_once_the_run_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The autoscaler by itself asks for none."""
        cloud = Cloud(pool(lost=3))
        group = gang_of(cloud, tmp_path, monkeypatch)
        cloud.submit("job", 2)
        cloud.wait(29)
        assert cloud.autoscaler.asked["nd"] == 1
        assert gathered(cloud, group) > group.patience
        assert cloud.autoscaler.asked["nd"] == 4

    def test_a_pod_that_replaces_another_gets_a_node_though_its_request_was_met(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cloud = Cloud(pool())
        group = gang_of(cloud, tmp_path, monkeypatch)
        cloud.submit("job", 2)
        cloud.wait(20)
        assert cloud.placed() == ["nd-0", "nd-1"]
        cloud.lose("nd-1")
        cloud.wait(5)
        assert (cloud.placed(), cloud.autoscaler.asked["nd"]) == (["nd-0"], 1)
        group.begin()
        assert gathered(cloud, group) < 16 * MINUTE
        assert cloud.placed() == ["nd-0", "nd-2"]

    def test_pods_whose_nodes_are_being_made_keep_their_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else the autoscaler would take nodes without adapters for too small, and start others."""
        cloud = Cloud(infiniband_alone(drivers=24 * MINUTE))
        group = gang_of(cloud, tmp_path, monkeypatch)
        cloud.submit("job", 2)
        assert gathered(cloud, group) > 27 * MINUTE
        assert cloud.autoscaler.asked["nd"] == 1

    def test_a_queue_whose_check_nobody_does_admits_nothing(self) -> None:
        """As where Kueue began before the cluster had the kind of such requests."""
        cloud = Cloud(pool(), provisions=False)
        cloud.submit("job", 1)
        (queue,) = cloud.store.items(CLUSTER_QUEUES)
        active = condition_of(queue, "Active")
        assert (active["status"], active["reason"]) == ("False", "AdmissionCheckInactive")
        assert active["message"].endswith("references inactive AdmissionCheck(s): fairway-nodes")
        assert cloud.suspended("job")
