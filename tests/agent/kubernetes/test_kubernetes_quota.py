"""What a queue can never admit is refused when it is submitted."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.kubernetes import submit
from fairway_agent.kubernetes.api import FORBIDDEN, Refused
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster, Server


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(submit, "Api", lambda: server)
    server.kueue = "/apis/kueue.x-k8s.io/v1beta2"
    server.of("localqueues")["team"] = {"spec": {"clusterQueue": "all"}}


def quota(server: Server, *cpus: str, borrow: str | None = None, **spec: Any) -> None:
    """A quota of processors in each of some flavors."""
    more = {} if borrow is None else {"borrowingLimit": borrow}
    flavors = [
        {"name": f"f{number}", "resources": [{"name": "cpu", "nominalQuota": each, **more}]}
        for number, each in enumerate(cpus)
    ]
    group = {"coveredResources": ["cpu"], "flavors": flavors}
    server.of("clusterqueues")["all"] = {"spec": {"resourceGroups": [group], **spec}}


def bring(cluster: Cluster, nodes: list[int], **more: Any) -> Path:
    folder = cluster.bring("job-a", nodes, **more)
    target = json.loads((folder / "target.json").read_text())
    target["kubernetes"] = {**target["kubernetes"], "queue": "team"}
    (folder / "target.json").write_text(json.dumps(target))
    return folder


def ask(cluster: Cluster) -> tuple[str, ...]:
    return submit.answer(cluster.shared, cluster.request("job-a"), io.BytesIO()).jobs


@pytest.mark.parametrize(
    ("cpus", "more"),
    [
        (["12"], {}),
        (["4", "12000m"], {}),
        (["8"], {"cohortName": "all", "borrow": "4"}),
        (["0"], {"cohortName": "all"}),
        (["0"], {"cohort": "all"}),
    ],
)
def test_kubernetes_quota_accepts_jobs_that_fit_in_an_idle_queue(
    cluster: Cluster, cpus: list[str], more: dict[str, Any]
) -> None:
    quota(cluster.server, *cpus, **more)
    bring(cluster, [3])
    assert ask(cluster) == ("job-a-0-0",)


@pytest.mark.parametrize(
    ("cpus", "more"),
    [
        (["11"], {}),
        (["8", "11500m"], {}),
        (["8"], {"cohortName": "all", "borrow": "3"}),
        (["8"], {"borrow": "100"}),
    ],
)
def test_kubernetes_quota_refuses_jobs_that_never_fit(
    cluster: Cluster, cpus: list[str], more: dict[str, Any]
) -> None:
    quota(cluster.server, *cpus, **more)
    folder = bring(cluster, [1, 3])
    with pytest.raises(
        Fault, match="3 pods that start together ask for more than the queue team"
    ) as (raised):
        ask(cluster)
    assert "max_parallel" in raised.value.record["hint"]
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


def test_a_sweep_takes_as_many_nodes_as_there_are(cluster: Cluster) -> None:
    quota(cluster.server, "32")
    bring(cluster, [1] * 50)
    ask(cluster)
    assert cluster.server.of("jobs")["job-a-0-0"]["spec"]["parallelism"] == 8


def test_a_queue_that_is_not_there_is_named(cluster: Cluster) -> None:
    cluster.server.of("localqueues").clear()
    bring(cluster, [1])
    with pytest.raises(Fault, match="the cluster has no queue team") as raised:
        ask(cluster)
    assert "kubectl get localqueues" in raised.value.record["hint"]


def test_a_head_that_may_not_see_quotas_submits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = cluster.server.get

    def forbidden(base: str, kind: str, name: str, **more: bool) -> Any:
        if kind == "clusterqueues":
            raise Refused(FORBIDDEN, "clusterqueues is forbidden")
        return get(base, kind, name, **more)

    monkeypatch.setattr(cluster.server, "get", forbidden)
    bring(cluster, [3])
    assert ask(cluster) == ("job-a-0-0",)


def with_priority(cluster: Cluster, priority: object, **priorities: str) -> None:
    folder = bring(cluster, [1])
    target = json.loads((folder / "target.json").read_text())
    target["kubernetes"]["priorities"] = priorities
    (folder / "target.json").write_text(json.dumps(target))
    (folder / "job.json").write_text(json.dumps({"priority": priority}))


@pytest.mark.parametrize(
    ("priority", "name"),
    [("high", "urgent"), (500, "urgent"), ("normal", None), ("low", None), (-500, None)],
)
def test_a_priority_is_a_class_of_the_queue(
    cluster: Cluster, priority: object, name: str | None
) -> None:
    quota(cluster.server, "64")
    cluster.server.of("workloadpriorityclasses")["urgent"] = {"value": 1000}
    with_priority(cluster, priority, high="urgent")
    [made] = ask(cluster)
    labels = cluster.server.of("jobs")[made]["metadata"]["labels"]
    assert labels.get("kueue.x-k8s.io/priority-class") == name


def test_a_class_that_is_not_there_is_refused(cluster: Cluster) -> None:
    """Kueue would make no workload for the Job, and say so to nobody who waits."""
    quota(cluster.server, "64")
    with_priority(cluster, "high", high="urgent")
    with pytest.raises(Fault, match="the cluster has no WorkloadPriorityClass urgent") as raised:
        ask(cluster)
    assert "kubectl get workloadpriorityclasses" in raised.value.record["hint"]
    assert not cluster.server.of("jobs")


def test_a_head_without_the_right_to_see_classes_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota(cluster.server, "64")
    with_priority(cluster, "high", high="urgent")
    known = cluster.server.get

    def get(base: str, kind: str, name: str, **more: bool) -> Any:
        if kind == "workloadpriorityclasses":
            raise Refused(FORBIDDEN, "forbidden")
        return known(base, kind, name, **more)

    monkeypatch.setattr(cluster.server, "get", get)
    assert len(ask(cluster)) == 1
