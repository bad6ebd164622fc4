"""Kueue's admission: kueue.sigs.k8s.io/docs/concepts (workload, cluster_queue).

Reasons of `QuotaReserved`: apis/kueue/v1beta2/workload_types.go of 0.19.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from namespaces import Makers, Space

from fairway_simulator.kubernetes import KubernetesCluster
from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import CLUSTER_QUEUES, FLAVORS
from fairway_simulator.kubernetes.api.store import Store
from fairway_simulator.kubernetes.controllers.quota import Assignment, Refusal, assign

_LABEL = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def queue(tmp_path: Path, space_of: Any) -> Iterator[Space]:
    """The namespace of a cluster with Kueue, whose queue `q` has 16 GPUs."""
    with KubernetesCluster(tmp_path / "k", kueue=True, backoff=0.1) as cluster:
        cluster.queue("q", {"nvidia.com/gpu": "16", "cpu": "96"})
        yield space_of(cluster)


@pytest.fixture
def make(jobs: Makers) -> Any:
    """Returns a function that makes a Job of the queue, with `gpus` GPUs per pod."""

    def job(name: str, line: str, gpus: int, count: int = 1, **labels: str) -> dict[str, Any]:
        limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
        found: dict[str, Any] = jobs.job(name, line, completions=count, container=limits)
        found["metadata"]["labels"] = {_LABEL: "q", **labels}
        return found

    return job


def _workload(space: Space, name: str) -> str:
    uid = space.get("job", name)["metadata"]["uid"]
    mark = f"kueue.x-k8s.io/job-uid={uid}"
    space.do("wait", "--for=create", "workloads", "-l", mark, "--timeout=280s")
    return space.do("get", "workloads", "-l", mark, "-o", "name").strip()


def _why(space: Space, name: str, kind: str = "QuotaReserved") -> tuple[str, str]:
    workload = _workload(space, name)
    space.wait(workload, f"condition={kind}=False")
    found = json.loads(space.do("get", workload, "-o", "json"))["status"]["conditions"]
    return next((each["reason"], each["message"]) for each in found if each["type"] == kind)


def test_kueue_workload_that_never_fits_exceeds_max_quota(queue: Space, make: Any) -> None:
    queue.create(make("much", "exit 0", 8, count=3))
    reason, message = _why(queue, "much")
    assert reason == "ExceedsMaxQuota"
    assert "current podset request (24) > maximum capacity (16)" in message


def test_kueue_workload_of_an_unknown_queue_is_misconfigured(queue: Space, make: Any) -> None:
    queue.create(make("lost", "exit 0", 8, **{_LABEL: "no"}))
    assert _why(queue, "lost") == ("Misconfigured", "LocalQueue no doesn't exist")


class TestStrictness:
    """Refusals of Kueue's webhooks, and messages of queues about pods that fit nowhere."""

    QUOTA: ClassVar[list[dict[str, Any]]] = [{"name": "cpu", "nominalQuota": "96"}]

    @pytest.mark.parametrize(
        ("group", "more", "said"),
        [
            ({"coveredResources": ["cpu", "memory"]}, {}, "the same number of resources"),
            ({"coveredResources": ["memory"]}, {}, "must match the name in coveredResources"),
            ({"flavors": []}, {}, "1 to 64"),
            ({}, {"queueingStrategy": "FIFO"}, 'supported values: "StrictFIFO"'),
            ({}, {"preemption": {"withinClusterQueue": "Any"}}, 'supported values: "Never"'),
            ({"flavors": [{"name": "q", "resources": [{"name": "cpu"}]}]}, {}, "Required value"),
        ],
    )
    def test_kueue_cluster_queue_that_is_invalid_is_refused(
        self, group: dict[str, Any], more: dict[str, Any], said: str
    ) -> None:
        flavors = [{"name": "q", "resources": self.QUOTA}]
        whole = {"coveredResources": ["cpu"], "flavors": flavors, **group}
        sent = {"metadata": {"name": "q"}, "spec": {"resourceGroups": [whole], **more}}
        with pytest.raises(ApiError, match=said) as raised:
            Admission(Store()).new(CLUSTER_QUEUES, sent, "", "Strict")
        assert raised.value.code == 422

    def test_kueue_flavor_with_an_unknown_field_is_refused(self) -> None:
        sent = {"metadata": {"name": "q"}, "spec": {"nodeLabel": {}}}
        with pytest.raises(ApiError, match=r'unknown field "spec\.nodeLabel"') as raised:
            Admission(Store()).new(FLAVORS, sent, "", "")
        assert raised.value.code == 400

    @pytest.mark.parametrize(
        ("spec", "said"),
        [
            ({"tolerations": [{"key": "pool", "operator": "Exists"}]}, ""),
            ({"tolerations": [{"key": "other", "operator": "Exists"}]}, "untolerated taint {pool"),
            (
                {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"agentpool": "other"}},
                "flavor q doesn't match node affinity",
            ),
        ],
    )
    def test_kueue_workload_must_fit_the_taints_and_labels_of_a_flavor(
        self, spec: dict[str, Any], said: str
    ) -> None:
        taint = {"key": "pool", "value": "q", "effect": "NoSchedule"}
        flavor = {"spec": {"nodeLabels": {"agentpool": "q"}, "nodeTaints": [taint]}}
        pods = {"containers": [{"resources": {"requests": {"cpu": "1"}}}], **spec}
        workload = {"spec": {"podSets": [{"count": 1, "template": {"spec": pods}}]}}
        flavors = [{"name": "q", "resources": self.QUOTA}]
        queue = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}}
        found = assign(queue, workload, [], {"q": flavor})
        if said:
            assert isinstance(found, Refusal)
            assert found.reason == "NoMatchingFlavor"
            assert said in found.message
        else:
            assert isinstance(found, Assignment)
