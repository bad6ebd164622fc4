"""Reasons why Kueue holds a Job, messages of the autoscaler, and jobs that a queue can never admit.

Objects are as Kueue 0.19 (API v1beta2) and cluster-autoscaler 1.36 give them.
"""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from api_server import Cluster, Server

from fairway_agent.kubernetes.api import FORBIDDEN, RequestRefused
from fairway_agent.kubernetes.objects import Objects, Scaling, parse_time, queue_reasons, scaling
from fairway_boot.files import AgentError

LACKS = "couldn't assign flavors: insufficient unused quota for nvidia.com/gpu, 8 more needed"
BACKOFF = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"


def workload(
    uid: str, *, queue: str = "nd", priority: int = 0, minute: int = 0, **more: Any
) -> dict[str, Any]:
    reason, message = more.pop("why", ("WaitingForQuota", LACKS))
    waits = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {
        "metadata": {
            "name": f"job-{uid}",
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "creationTimestamp": f"2026-11-22T10:{minute:02}:00Z",
        },
        "spec": {"queueName": queue, "priority": priority, **more.pop("spec", {})},
        "status": {"conditions": [waits], **more},
    }


def held(server: Server, *workloads: dict[str, Any]) -> dict[str, str]:
    server.kueue = "/apis/kueue.x-k8s.io/v1beta2"
    server.of("workloads").update({each["metadata"]["name"]: each for each in workloads})
    return queue_reasons(server)  # type: ignore[arg-type]


def test_kubernetes_queueing_reason_counts_workloads_that_come_first(server: Server) -> None:
    server.of("workloads")["x"] = workload("x")
    assert queue_reasons(server) == {}, "without Kueue nothing is asked"  # type: ignore[arg-type]
    server.of("workloads").clear()
    running = {"type": "Admitted", "status": "True"}
    found = held(
        server,
        workload("old", minute=1),
        workload("older", minute=0),
        workload("high", priority=10, minute=5),
        workload("newest", minute=7),
        workload("other", queue="spot", minute=9),
        workload("runs", minute=0, conditions=[running]),
        workload("aside", minute=0, spec={"active": False}),
    )
    said = {uid: why.partition("waiting")[0] for uid, why in found.items()}
    assert said == {
        "high": "",
        "older": "1 other job comes first; ",
        "old": "2 other jobs come first; ",
        "newest": "3 other jobs come first; ",
        "other": "",
        "aside": "its queue has put it back: it was stopped by someone",
    }
    assert found["high"] == f"waiting for quota: {LACKS}"


NONE_FOUND = "Provisioning Request's atomic scale-up failed: CapacityIsNotFound"
PUT_BACK = "Evicted due to AdmissionCheck in Retry state: Retrying after failure: it is expired"
ENDED = "The workload is deactivated due to AdmissionCheck in Rejected state"


def evicted(reason: str, message: str) -> dict[str, Any]:
    return {"type": "Evicted", "status": "True", "reason": reason, "message": message}


def check(state: str, message: str = "") -> list[dict[str, str]]:
    return [{"name": "nodes", "state": state, "message": message}]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        *(
            ({"why": (reason, "ClusterQueue nd is inactive")}, "for quota: ClusterQueue nd is in")
            for reason in ("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible")
        ),
        *(
            ({"admissionChecks": check(state, NONE_FOUND)}, f"for nodes: {NONE_FOUND}")
            for state in ("Retry", "Rejected")
        ),
        ({"admissionChecks": check("Pending")}, "for quota: "),  # not done, and without a message
    ],
)
def test_kubernetes_queueing_reason_is_that_of_the_queue_or_of_a_check(
    server: Server, facts: dict[str, Any], said: str
) -> None:
    assert held(server, workload("x", **facts))["x"].startswith(f"waiting {said}")
    # A workload that Kueue has not considered yet.
    assert held(server, workload("new", conditions=[])).get("new") is None


def test_kubernetes_queueing_reason_says_why_a_job_was_evicted_or_deactivated(
    server: Server,
) -> None:
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": PUT_BACK}
    conditions = [evicted("AdmissionCheck", PUT_BACK), waits]
    found = held(server, workload("x", conditions=conditions))
    assert found["x"] == f"waiting to try again: {PUT_BACK}"
    taken = "Preempted to accommodate a workload due to prioritization in the ClusterQueue"
    conditions = [evicted("Preempted", taken), waits | {"message": LACKS}]
    found = held(server, workload("x", conditions=conditions))
    assert found["x"] == f"preempted by another job; waiting for quota: {LACKS}"
    stopped = workload(
        "x",
        spec={"active": False},
        conditions=[evicted("Deactivated", ENDED)],
        admissionChecks=check("Rejected", "it is expired"),
    )
    assert held(server, stopped)["x"] == f"its queue has put it back: {ENDED}"


@pytest.mark.parametrize(
    ("count", "message", "said"),
    [
        (4, "", "all of its 4 pods: the autoscaler was asked for them"),
        (
            4,
            "Capacity is not found, CA will try to find it later.",
            "all of its 4 pods: Capacity is not found, CA will try to find it later.",
        ),
        (1, "", "its pod: the autoscaler was asked for them"),
    ],
)
def test_kubernetes_queueing_reason_of_a_pending_node_request_names_its_pods(
    server: Server, count: int, message: str, said: str
) -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
    checks = [{"name": "fairway-nodes", "state": "Pending", "message": message}]
    pods = {"podSets": [{"name": "main", "count": count}]}
    waits = workload("x", spec=pods, conditions=[reserved], admissionChecks=checks)
    assert held(server, waits)["x"] == f"waiting for nodes for {said}"
    done = workload("x", spec=pods, conditions=[reserved], admissionChecks=[])
    assert held(server, done).get("x") is None


def event(uid: str, reason: str, message: str, minute: int, second: str = "00") -> dict[str, Any]:
    when, about = f"2026-11-22T10:{minute:02}:{second}Z", {"kind": "Pod", "uid": uid}
    # Events of some clients have microseconds, in another field.
    time = {"eventTime": when} if "." in second else {"lastTimestamp": when}
    return {"involvedObject": about, "reason": reason, "message": message, **time}


def test_kubernetes_autoscaler_latest_event_of_a_pod_counts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = "pod triggered scale-up: [{aks-nd-vmss 0->2 (max: 8)}]"
    events = [
        event("a", "NotTriggerScaleUp", BACKOFF, 5),
        event("a", "TriggeredScaleUp", starts, 1),
        event("b", "TriggeredScaleUp", starts, 6),
        event("b", "NotTriggerScaleUp", BACKOFF, 3),
        event("c", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size", 3),
        # Compared as text they would be in the other order.
        event("d", "NotTriggerScaleUp", BACKOFF, 7),
        event("d", "TriggeredScaleUp", starts, 7, "00.500000"),
        event("e", "NotTriggerScaleUp", BACKOFF, 7, "00.500000"),
        event("e", "TriggeredScaleUp", starts, 7),
    ]
    refused = "the autoscaler starts none: 1 in backoff after failed scale-up"

    def listed(kind: str, query: dict[str, str]) -> list[dict[str, Any]]:
        assert kind == "events"
        _, _, reason = query["fieldSelector"].rpartition("reason=")
        return [each for each in events if each["reason"] == reason]

    monkeypatch.setattr(server, "list", listed)
    assert scaling(server) == {  # type: ignore[arg-type]
        "a": Scaling(refused, parse_time("2026-11-22T10:01:00Z")),
        "b": Scaling("the pool scales up", parse_time("2026-11-22T10:06:00Z")),
        "c": Scaling("the autoscaler starts none: 1 max node group size"),
        "d": Scaling("the pool scales up", parse_time("2026-11-22T10:07:00.500000Z")),
        "e": Scaling(refused, parse_time("2026-11-22T10:07:00Z")),
    }


def test_kubernetes_autoscaler_scales_up_for_pods_of_a_provisioning_request() -> None:
    """cluster-autoscaler 1.36, processors/provreq/pods_filter.go: its event has no reason."""
    note = {"autoscaling.x-k8s.io/consume-provisioning-request": "job-x-fairway-nodes-1"}
    asked = {"metadata": {"uid": "a", "annotations": note}}
    found = Objects(scaling={"b": Scaling("the autoscaler starts none: 1 max node group size")})
    assert found.scaling_of(asked) == Scaling("the pool scales up")
    assert found.scaling_of({"metadata": {"uid": "b"}}) == found.scaling["b"]
    assert found.scaling_of({"metadata": {"uid": "c"}}) == Scaling()


def test_kubernetes_autoscaler_events_that_the_head_may_not_read_are_skipped(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier release may have prepared the head."""
    refusals = [RequestRefused(status, "events is forbidden") for status in (403, 500)]
    monkeypatch.setattr(server, "list", Mock(side_effect=refusals))
    assert scaling(server) == {}  # type: ignore[arg-type]
    with pytest.raises(RequestRefused):
        scaling(server)  # type: ignore[arg-type]


def quota(server: Server, *cpus: str, borrow: str | None = None, **spec: Any) -> None:
    """Adds the queue `team` with a quota of processors in each of some flavors."""
    server.kueue = "/apis/kueue.x-k8s.io/v1beta2"
    server.of("localqueues")["team"] = {"spec": {"clusterQueue": "all"}}
    more = {} if borrow is None else {"borrowingLimit": borrow}
    flavors = [
        {"name": f"f{number}", "resources": [{"name": "cpu", "nominalQuota": each, **more}]}
        for number, each in enumerate(cpus)
    ]
    group = {"coveredResources": ["cpu"], "flavors": flavors}
    server.of("clusterqueues")["all"] = {"spec": {"resourceGroups": [group], **spec}}


def bring(cluster: Cluster, nodes: list[int], priorities: dict[str, str] | None = None) -> Path:
    folder = cluster.bring("job-a", nodes)
    target = json.loads((folder / "target.json").read_text())
    target["kubernetes"] |= {"queue": "team", "priorities": priorities or {}}
    (folder / "target.json").write_text(json.dumps(target))
    return folder


ALL = {"cohortName": "all"}


@pytest.mark.parametrize(
    ("cpus", "more", "fits"),
    [
        (["12"], {}, True),
        (["4", "12000m"], {}, True),
        (["8"], {**ALL, "borrow": "4"}, True),
        (["0"], ALL, True),
        (["0"], {"cohort": "all"}, True),
        (["11"], {}, False),
        (["8", "11500m"], {}, False),
        (["8"], {**ALL, "borrow": "3"}, False),
        (["8"], {"borrow": "100"}, False),
    ],
)
def test_kubernetes_quota_refuses_jobs_that_never_fit_into_an_idle_queue(
    cluster: Cluster, cpus: list[str], more: dict[str, Any], fits: bool
) -> None:
    quota(cluster.server, *cpus, **more)
    folder = bring(cluster, [1, 3])
    if fits:
        assert cluster.submit() == ["job-a-0-0", "job-a-0-1"]
        return
    with pytest.raises(
        AgentError, match="3 pods that start together ask for more than the q"
    ) as raised:
        cluster.submit()
    assert "max_parallel" in raised.value.record["hint"]
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


def test_kubernetes_quota_sweep_runs_on_as_many_nodes_as_there_are(cluster: Cluster) -> None:
    quota(cluster.server, "32")
    bring(cluster, [1] * 50)
    cluster.submit()
    assert cluster.server.of("jobs")["job-a-0-0"]["spec"]["parallelism"] == 8


@pytest.mark.parametrize("hidden", ["clusterqueues", "workloadpriorityclasses"])
def test_kubernetes_quota_or_class_that_the_head_may_not_read_is_no_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    get = cluster.server.get

    def forbidden(kind: str, name: str) -> Any:
        if kind == hidden:
            raise RequestRefused(FORBIDDEN, f"{hidden} is forbidden")
        return get(kind, name)

    monkeypatch.setattr(cluster.server, "get", forbidden)
    quota(cluster.server, "0" if hidden == "clusterqueues" else "64")
    with_priority(cluster, "normal" if hidden == "clusterqueues" else "high", high="urgent")
    assert cluster.submit() == ["job-a-0-0"]


def with_priority(cluster: Cluster, priority: object, **priorities: str) -> None:
    folder = bring(cluster, [1], priorities)
    (folder / "job.json").write_text(json.dumps({"priority": priority}))


@pytest.mark.parametrize(
    ("priority", "name"),
    [("high", "urgent"), (500, "urgent"), ("normal", None), ("low", None), (-500, None)],
)
def test_kubernetes_priority_becomes_a_priority_class_of_the_queue(
    cluster: Cluster, priority: object, name: str | None
) -> None:
    quota(cluster.server, "64")
    cluster.server.of("workloadpriorityclasses")["urgent"] = {"value": 1000}
    with_priority(cluster, priority, high="urgent")
    [made] = cluster.submit()
    labels = cluster.server.of("jobs")[made]["metadata"]["labels"]
    assert labels.get("kueue.x-k8s.io/priority-class") == name


@pytest.mark.parametrize(
    ("gone", "said", "see"),
    [
        ("localqueues", "no queue team", "localqueues"),
        # Kueue would create no workload for the Job, without telling the waiting user.
        ("classes", "no WorkloadPriorityClass urgent", "workloadpriorityclasses"),
    ],
)
def test_kubernetes_queue_or_priority_class_that_is_missing_is_refused(
    cluster: Cluster, gone: str, said: str, see: str
) -> None:
    quota(cluster.server, "64")
    cluster.server.of(gone).clear()
    with_priority(cluster, "high", high="urgent")
    with pytest.raises(AgentError, match=f"the cluster has {said}") as raised:
        cluster.submit()
    assert f"kubectl get {see}" in raised.value.record["hint"]
    assert not cluster.server.of("jobs")
