"""Indexed Jobs, compared with the observed behaviour of kube-controller-manager 1.36.2.

Conditions and reasons: kubernetes.io/docs/concepts/workloads/controllers/job, "Success policy",
"Pod failure policy" and "Backoff limit per index"; words of messages: pkg/controller/job.
"""

import copy
import json
import re
from contextlib import nullcontext
from typing import Any

import pytest
from namespaces import Makers, Space

from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.pod_rules import job_changes
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import JOBS, NAMESPACES
from fairway_simulator.kubernetes.api.store import Store

_UNTIL_GO = "while [ ! -e /go/go ]; do sleep 0.05; done"


def _conditions(job: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        each["type"]: (each.get("reason", ""), each.get("message", ""))
        for each in job["status"]["conditions"]
        if each["status"] == "True"
    }


def _evict(space: Space, pod: str) -> None:
    name = pod.removeprefix("pod/")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{space.name}/pods/{name}/eviction"
    space.do("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def test_kubernetes_job_success_policy_succeeds_with_index_0(space: Space, jobs: Makers) -> None:
    space.create(jobs.gang("g", f"{_UNTIL_GO}; exit 0"))
    for index in (1, 2):
        space.wait(space.pod_of("g", index), "Ready")
    main = space.pod_of("g", 0)
    space.wait(main, "Ready")
    jobs.go()
    space.wait("job/g", "Complete")
    job = space.get("job", "g")
    said = ("SuccessPolicy", "Matched rules at index 0")
    assert _conditions(job) == {"SuccessCriteriaMet": said, "Complete": said}
    assert job["status"]["completedIndexes"] == "0"
    # The other pods got SIGTERM, and their objects are gone at the end.
    assert space.do("get", "pods", "-o", "name").split() == [main]


def test_kubernetes_job_success_policy_fails_with_index_0(space: Space, jobs: Makers) -> None:
    space.create(jobs.gang("bad", f"{_UNTIL_GO}; exit 7"))
    for index in (0, 1, 2):
        space.wait(space.pod_of("bad", index), "Ready")
    jobs.go()
    space.wait("job/bad", "Failed")
    job = space.get("job", "bad")
    said = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert _conditions(job) == {"FailureTarget": said, "Failed": said}
    assert job["status"]["failed"] == 1  # the workers were terminated
    (pod,) = space.items("pods")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 7


def test_kubernetes_job_replaces_evicted_worker_that_exits_143(space: Space, jobs: Makers) -> None:
    space.create(jobs.gang("g", f"{_UNTIL_GO}; exit 0"))
    worker = space.pod_of("g", 1)
    space.wait(worker, "Ready")
    _evict(space, worker)
    space.wait(worker, "delete")
    other = space.pod_of("g", 1)
    assert other != worker
    space.wait(other, "Ready")
    assert "failed" not in space.get("job", "g")["status"]  # ignored failures are not counted
    jobs.go()
    space.wait("job/g", "Complete")


def test_kubernetes_job_never_replaces_evicted_worker_that_exits_0(
    space: Space, jobs: Makers
) -> None:
    workers = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    space.create(jobs.gang("g", f"{_UNTIL_GO}; exit 0", workers))
    worker = space.pod_of("g", 1)
    space.wait(worker, "Ready")
    _evict(space, worker)
    space.wait("job/g", "jsonpath={.status.completedIndexes}=1")
    space.wait(worker, "delete")
    status = space.get("job", "g")["status"]
    assert (status["active"], status["completedIndexes"]) == (2, "1")


def test_kubernetes_job_lists_completed_and_failed_indexes_as_intervals(
    space: Space, jobs: Makers
) -> None:
    line = "exit $((JOB_COMPLETION_INDEX == 2))"
    space.create(jobs.job("a", line, completions=6, parallelism=2, backoffLimitPerIndex=0))
    space.wait("job/a", "Failed")
    job = space.get("job", "a")
    assert job["status"]["completedIndexes"] == "0,1,3-5"
    assert job["status"]["failedIndexes"] == "2"
    assert _conditions(job)["Failed"] == ("FailedIndexes", "Job has failed indexes")


def test_kubernetes_job_restarts_its_only_pod_up_to_its_backoff_limit(
    space: Space, jobs: Makers
) -> None:
    space.create(jobs.job("a", "exit 3", completionMode="NonIndexed", backoffLimit=2))
    space.wait("job/a", "Failed")
    assert space.get("job", "a")["status"]["failed"] == 3


def test_kubernetes_job_that_is_suspended_has_no_pods(space: Space, jobs: Makers) -> None:
    """Pods that it had before do not count: see `deleteJobPods`."""
    line = f"trap 'exit 143' TERM; {_UNTIL_GO}; exit 0"
    space.create(jobs.job("a", line, suspend=True, backoffLimitPerIndex=0))
    space.wait("job/a", "Suspended")
    assert space.items("pods") == []
    space.do("patch", "job", "a", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    pod = space.pod_of("a", 0)
    space.wait(pod, "Ready")
    space.do("patch", "job", "a", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    space.wait(pod, "delete")
    space.do("patch", "job", "a", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    jobs.go()
    space.wait("job/a", "Complete")
    assert "failed" not in space.get("job", "a")["status"]


def test_kubernetes_job_deletion_in_the_foreground_deletes_its_pods_first(
    space: Space, jobs: Makers
) -> None:
    line = "trap 'exit 143' TERM; while :; do sleep 0.1; done"
    space.create(jobs.job("a", line, completions=2))
    space.wait(space.pod_of("a", 1), "Ready")
    space.do("delete", "job", "a", "--cascade=foreground")
    assert space.items("pods") == []


def _ignored(**rule: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": "Ignore", **rule}]}}


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"backofLimit": 1}, 400, 'strict decoding error: unknown field "spec.backofLimit"'),
        ({"completions": "three"}, 400, "cannot unmarshal string"),
        ({"managedBy": "x"}, 422, "spec.managedBy"),
        ({"activeDeadlineSeconds": 1}, 422, "spec.activeDeadlineSeconds"),
        ({"backoffLimitPerIndex": 1}, 422, "tries no index again"),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, 422, "spec.podReplacementPolicy"),
        ({"completionMode": "NonIndexed", "backoffLimitPerIndex": 0}, 422, "requires indexed"),
        ({"completionMode": "NonIndexed", "completions": 2}, 422, "spec.completionMode"),
        ({"successPolicy": {"rules": []}}, 422, "at least one rules"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, 422, "succeededIndexes alone"),
        (_ignored(action="FailJob", onPodConditions=[{"type": "a"}]), 422, "`Ignore` alone"),
        (_ignored(), 422, "specifying one of OnExitCodes and"),
        (_ignored(onExitCodes={"operator": "NotIn", "values": [1]}), 422, "`In` alone"),
        (_ignored(onExitCodes={"operator": "In", "values": []}), 422, "at least one value"),
        (_ignored(onExitCodes={"operator": "In", "values": [0]}), 422, "must not be 0 for the In"),
        (
            _ignored(onExitCodes={"operator": "In", "values": [1], "containerName": "b"}),
            422,
            "must be one of the container",
        ),
        ({"pod": {"restartPolicy": "Always"}}, 422, "spec.template.spec.restartPolicy"),
        ({"completions": -1}, 422, "must be greater than or equal to 0"),
        (
            {"container": {"resources": {"requests": {"x/gpu": "1"}, "limits": {"x/gpu": "2"}}}},
            422,
            "must be equal to x/gpu limit of 2",
        ),
        (
            {"container": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}},
            422,
            "must be less than or equal to cpu limit of 1",
        ),
        ({"container": {"resources": {"limits": {"cpu": "a"}}}}, 422, "quantities must match"),
        (
            {"container": {"volumeMounts": [{"name": "no", "mountPath": "/no"}]}},
            422,
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "no"',
        ),
    ],
)
def test_kubernetes_job_that_is_invalid_is_refused(
    jobs: Makers, changes: dict[str, Any], code: int, said: str
) -> None:
    with pytest.raises(ApiError, match=re.escape(said)) as refused:
        _admitted(jobs.job("a", "true", **changes))
    assert refused.value.code == code


def _admitted(job: dict[str, Any]) -> dict[str, Any]:
    store = Store()
    store.create(NAMESPACES, {"metadata": {"name": "n"}})
    return Admission(store).new(JOBS, job, "n", "Strict")


@pytest.mark.parametrize(("length", "taken"), [(61, True), (62, False)])
def test_kubernetes_job_name_is_limited_by_the_host_names_of_its_pods(
    jobs: Makers, length: int, taken: bool
) -> None:
    """A host name has 63 characters, less a hyphen and the digits of the highest index."""
    made = jobs.job("a" * length, "exit 0", completions=3)
    with nullcontext() if taken else pytest.raises(ApiError, match="pod with invalid DNS label"):
        _admitted(made)


def test_kubernetes_job_completions_and_template_are_immutable(jobs: Makers) -> None:
    before = _admitted(jobs.job("a", "exit 0", completions=3, suspend=True))
    after = copy.deepcopy(before)
    after["spec"]["completions"] = 2
    after["spec"]["template"]["spec"]["containers"][0]["image"] = "sim2"
    fields = [each.partition(":")[0] for each in job_changes(before, after)]
    assert fields == ["spec.completions", "spec.template"]


def test_kubernetes_pods_with_affinity_share_a_node(space: Space) -> None:
    """Other pods go to the emptiest node."""
    near = {"labelSelector": {"matchLabels": {"shares": "true"}}}
    term = {"weight": 100, "podAffinityTerm": {**near, "topologyKey": "kubernetes.io/hostname"}}
    liked = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}

    def node_of(name: str, **spec: Any) -> str:
        container = {"name": "task", "image": "sim", "command": ["sleep", "infinity"]}
        # Enough to matter: the scheduler scores a node in full percents of its processors.
        container["resources"] = {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}}
        metadata = {"name": name, "labels": {"shares": "true"} if spec else {}}
        spec |= {"containers": [container], "terminationGracePeriodSeconds": 0}
        space.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        space.wait(f"pod/{name}", "jsonpath={.spec.nodeName}")
        return str(space.get("pod", name)["spec"]["nodeName"])

    first = node_of("first", affinity=liked)
    assert node_of("second", affinity=liked) == first
    assert node_of("third") != first
    assert node_of("fourth", affinity=liked) == first


def test_kubernetes_job_counts_a_pod_deleted_before_scheduling_as_failed(
    space: Space, jobs: Makers
) -> None:
    """See `gcUnscheduledTerminating` of PodGC: the failed index makes room for the next one."""
    job = jobs.job("a", "exit 0", completions=2, parallelism=1, backoffLimitPerIndex=0)
    job["spec"]["template"]["spec"]["nodeSelector"] = {"agentpool": "none"}
    space.create(job)
    space.do("delete", space.pod_of("a", 0), "--wait=false")
    assert space.pod_of("a", 1)
    assert space.get("job", "a")["status"]["failedIndexes"] == "0"
