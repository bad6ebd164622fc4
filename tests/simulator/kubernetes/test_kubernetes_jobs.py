"""Indexed Jobs, held to what kube-controller-manager 1.36.2 was seen to do.

Conditions and reasons: kubernetes.io/docs/concepts/workloads/controllers/job, "Success policy",
"Pod failure policy" and "Backoff limit per index"; words of messages: pkg/controller/job.
"""

import json
from typing import Any

import pytest
from namespaces import Makers, Space

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


def test_index_0_decides_that_a_gang_succeeded(space: Space, jobs: Makers) -> None:
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
    # The others got SIGTERM, and their objects are gone with the end.
    assert space.do("get", "pods", "-o", "name").split() == [main]


def test_an_exit_code_of_index_0_fails_a_gang(space: Space, jobs: Makers) -> None:
    space.create(jobs.gang("bad", f"{_UNTIL_GO}; exit 7"))
    for index in (1, 2):
        space.wait(space.pod_of("bad", index), "Ready")
    main = space.pod_of("bad", 0)
    space.wait(main, "Ready")
    jobs.go()
    space.wait("job/bad", "Failed")
    job = space.get("job", "bad")
    name = main.removeprefix("pod/")
    message = (
        f"Container task for pod {space.name}/{name} failed with exit code 7 matching FailJob "
        "rule at index 1"
    )
    said = ("PodFailurePolicy", message)
    assert _conditions(job) == {"FailureTarget": said, "Failed": said}
    assert job["status"]["failed"] == 3  # the workers that were ended count
    (pod,) = space.items("pods")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["metadata"]["name"], ended["exitCode"]) == (name, 7)


def test_an_evicted_worker_that_ends_with_143_is_replaced(space: Space, jobs: Makers) -> None:
    space.create(jobs.gang("g", f"{_UNTIL_GO}; exit 0"))
    worker = space.pod_of("g", 1)
    space.wait(worker, "Ready")
    _evict(space, worker)
    space.wait(worker, "delete")
    other = space.pod_of("g", 1)
    assert other != worker
    space.wait(other, "Ready")
    assert "failed" not in space.get("job", "g")["status"]  # what is ignored is not counted
    jobs.go()
    space.wait("job/g", "Complete")


def test_an_evicted_worker_that_ends_with_0_is_never_replaced(space: Space, jobs: Makers) -> None:
    workers = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    space.create(jobs.gang("g", f"{_UNTIL_GO}; exit 0", workers))
    worker = space.pod_of("g", 1)
    space.wait(worker, "Ready")
    _evict(space, worker)
    space.wait("job/g", "jsonpath={.status.completedIndexes}=1")
    space.wait(worker, "delete")
    status = space.get("job", "g")["status"]
    assert (status["active"], status["completedIndexes"]) == (2, "1")


def test_an_array_names_its_indexes_in_intervals(space: Space, jobs: Makers) -> None:
    line = "exit $((JOB_COMPLETION_INDEX == 2))"
    space.create(jobs.job("a", line, completions=6, parallelism=2, backoffLimitPerIndex=0))
    space.wait("job/a", "Failed")
    job = space.get("job", "a")
    assert job["status"]["completedIndexes"] == "0,1,3-5"
    assert job["status"]["failedIndexes"] == "2"
    assert _conditions(job)["Failed"] == ("FailedIndexes", "Job has failed indexes")


def test_an_index_is_tried_again_as_often_as_its_limit_says(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 3", backoffLimitPerIndex=1))
    space.wait("job/a", "Failed")
    assert space.get("job", "a")["status"]["failed"] == 2


def test_fail_index_spares_the_other_tries(space: Space, jobs: Makers) -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}
    policy = {"rules": [rule]}
    space.create(
        jobs.job(
            "a",
            "exit $((JOB_COMPLETION_INDEX * 3))",
            completions=2,
            backoffLimitPerIndex=5,
            podFailurePolicy=policy,
        )
    )
    space.wait("job/a", "Failed")
    status = space.get("job", "a")["status"]
    assert (status["failed"], status["failedIndexes"], status["completedIndexes"]) == (1, "1", "0")


def test_a_job_gives_up_at_its_back_off_limit(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 1", backoffLimit=0))
    space.wait("job/a", "Failed")
    job = space.get("job", "a")
    assert _conditions(job)["Failed"] == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )


def test_a_suspended_job_has_no_pods(space: Space, jobs: Makers) -> None:
    short = {"terminationGracePeriodSeconds": 1}  # bash as process 1 has no answer to SIGTERM
    space.create(jobs.job("a", f"{_UNTIL_GO}; exit 0", suspend=True, pod=short))
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


def test_pods_of_a_suspended_job_do_not_count(space: Space, jobs: Makers) -> None:
    line = f"trap 'exit 143' TERM; {_UNTIL_GO}; exit 0"
    space.create(jobs.job("a", line, backoffLimitPerIndex=0, podReplacementPolicy="Failed"))
    pod = space.pod_of("a", 0)
    space.wait(pod, "Ready")
    space.do("patch", "job", "a", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    space.wait(pod, "delete")
    space.do("patch", "job", "a", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    jobs.go()
    space.wait("job/a", "Complete")
    assert "failed" not in space.get("job", "a")["status"]


def test_a_pod_knows_its_index_and_has_its_name(space: Space, jobs: Makers) -> None:
    line = "echo $JOB_COMPLETION_INDEX $(hostname) $HOSTNAME > /go/$JOB_COMPLETION_INDEX"
    space.create(jobs.job("named", line, completions=2))
    space.wait("job/named", "Complete")
    for index in (0, 1):
        said = (jobs.folder / str(index)).read_text().split()
        assert said == [str(index), f"named-{index}", f"named-{index}"]


def test_foreground_deletion_takes_the_pods_first(space: Space, jobs: Makers) -> None:
    line = "trap 'exit 143' TERM; while :; do sleep 0.1; done"
    space.create(jobs.job("a", line, completions=2))
    space.wait(space.pod_of("a", 1), "Ready")
    space.do("delete", "job", "a", "--cascade=foreground")
    assert space.items("pods") == []


def test_defaults_are_those_of_the_server(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 0"))
    job = space.get("job", "a")
    spec, uid = job["spec"], job["metadata"]["uid"]
    assert spec["backoffLimit"] == 6
    assert spec["suspend"] is False
    assert spec["manualSelector"] is False
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        (
            {"backofLimit": 1},
            "BadRequest",
            'strict decoding error: unknown field "spec.backofLimit"',
        ),
        ({"completions": "three"}, "BadRequest", "cannot unmarshal string"),
        ({"managedBy": "x"}, "Invalid", "spec.managedBy"),
        ({"activeDeadlineSeconds": 1}, "Invalid", "spec.activeDeadlineSeconds"),
        (
            {
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
                "completionMode": "NonIndexed",
            },
            "Invalid",
            "spec.successPolicy",
        ),
        ({"completionMode": "NonIndexed", "completions": 2}, "Invalid", "spec.completionMode"),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}
                    ]
                }
            },
            "Invalid",
            "spec.podFailurePolicy.rules[0].action",
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
                    ]
                },
                "podReplacementPolicy": "TerminatingOrFailed",
            },
            "Invalid",
            "spec.podReplacementPolicy",
        ),
        (
            {"container": {"resources": {"requests": {"x/gpu": "1"}, "limits": {"x/gpu": "2"}}}},
            "Invalid",
            "must be equal to x/gpu limit of 2",
        ),
        ({"pod": {"restartPolicy": "Always"}}, "Invalid", "spec.template.spec.restartPolicy"),
        ({"completions": -1}, "Invalid", "must be greater than or equal to 0"),
        (
            {"container": {"volumeMounts": [{"name": "no", "mountPath": "/no"}]}},
            "Invalid",
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "no"',
        ),
    ],
)
def test_kubernetes_invalid_job_is_refused_by_the_server(
    space: Space, jobs: Makers, changes: dict[str, Any], code: str, said: str
) -> None:
    message = space.refused("create", "-f", "-", stdin=json.dumps(jobs.job("a", "true", **changes)))
    assert f"({code})" in message or "is invalid" in message
    assert said in message


def test_a_name_is_taken_once(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 0"))
    message = space.refused("create", "-f", "-", stdin=json.dumps(jobs.job("a", "exit 0")))
    assert "(AlreadyExists)" in message
    assert 'jobs.batch "a" already exists' in message


@pytest.mark.parametrize(("length", "taken"), [(61, True), (62, False), (63, False), (64, False)])
def test_host_names_limit_the_names_of_jobs(
    space: Space, jobs: Makers, length: int, taken: bool
) -> None:
    """63 less a hyphen and the digits of the highest index."""
    manifest = json.dumps(jobs.job("a" * length, "exit 0", completions=3, suspend=True))
    assert (space.run("create", "-f", "-", stdin=manifest).returncode == 0) is taken


def test_completions_and_template_of_a_job_do_not_change(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 0", completions=3, suspend=True))
    image = '{"spec": {"template": {"spec": {"containers": [{"name": "task", "image": "sim2"}]}}}}'
    for patch in ('{"spec": {"completions": 2}}', image):
        assert "field is immutable" in space.refused("patch", "job", "a", "-p", patch)


def test_five_thousand_tasks_are_one_object(space: Space, jobs: Makers) -> None:
    space.create(jobs.job("a", "exit 0", completions=5_000, backoffLimitPerIndex=0, suspend=True))
    assert space.get("job", "a")["spec"]["completions"] == 5_000


def test_pods_that_like_each_other_share_a_node(space: Space) -> None:
    """And others go to the emptiest."""
    near = {"labelSelector": {"matchLabels": {"shares": "true"}}}
    term = {"weight": 100, "podAffinityTerm": {**near, "topologyKey": "kubernetes.io/hostname"}}
    liked = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}

    def node_of(name: str, **spec: Any) -> str:
        container = {"name": "task", "image": "sim", "command": ["sleep", "infinity"]}
        # Enough to count: the scheduler's score of a node is in whole percents of its processors.
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


def test_a_pod_that_is_deleted_before_it_has_a_node_has_failed(space: Space, jobs: Makers) -> None:
    """As PodGC has it, `gcUnscheduledTerminating`: its index makes room for the next one."""
    job = jobs.job("a", "exit 0", completions=2, parallelism=1, backoffLimitPerIndex=0)
    job["spec"]["podReplacementPolicy"] = "Failed"
    job["spec"]["template"]["spec"]["nodeSelector"] = {"agentpool": "none"}
    space.create(job)
    space.do("delete", space.pod_of("a", 0), "--wait=false")
    assert space.pod_of("a", 1)
    assert space.get("job", "a")["status"]["failedIndexes"] == "0"
