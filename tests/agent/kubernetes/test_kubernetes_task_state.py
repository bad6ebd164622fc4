"""States of tasks by the objects of Kubernetes, as a server of version 1.36 gave them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fairway_agent.control import Part
from fairway_agent.kubernetes.api import CORDONED
from fairway_agent.kubernetes.manifests import QUEUE
from fairway_agent.kubernetes.objects import REQUESTED, Objects, Scaling, parse_time
from fairway_agent.kubernetes.task_state import missing_pods, unrequested_pods, view_of, why_pending
from fairway_agent.reconcile import JobView

LONG_AGO = "2023-11-14T19:10:00Z"
ENDED = "2023-11-14T20:00:00Z"
NAME = "digits-7k2m9p-0-0"
SWEEP = Part("tasks", 0, [0, 2, 5], 1, 1, job=NAME)
GANG = Part("tasks", 0, [3], 3, 8, job=NAME)


def job(status: dict[str, Any] | None = None, *, suspend: bool = False) -> dict[str, Any]:
    facts = {"name": NAME, "namespace": "research", "uid": "u-1"}
    return {"metadata": facts, "spec": {"suspend": suspend}, "status": status or {}}


def pod(index: int, phase: str, *, age: int = 0, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{NAME}-{index}-abcde",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "creationTimestamp": f"2023-11-14T19:{50 - age:02}:00Z",
        },
        "status": {"phase": phase, **status},
    }


def over(kind: str, reason: str) -> dict[str, Any]:
    facts = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": ENDED}
    return {"conditions": [facts]}


def terminated(code: int, reason: str, **more: Any) -> dict[str, Any]:
    facts = {"exitCode": code, "reason": reason, "finishedAt": ENDED, **more}
    return {"containerStatuses": [{"state": {"terminated": facts}}]}


def unschedulable(message: str) -> dict[str, Any]:
    facts = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**facts, "message": message}]}


def held(reason: str, message: str) -> dict[str, Any]:
    waiting = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"image": "own:1", "state": waiting}]}


def seen(
    part: Part, index: int, found: dict[str, Any] | None, *pods: Any, **more: Any
) -> tuple[JobView, str]:
    return view_of(Objects({NAME: found} if found else {}, {NAME: [*pods]}, **more), part, index)


def view(part: Part, index: int, found: dict[str, Any] | None, *pods: Any, **more: Any) -> JobView:
    return seen(part, index, found, *pods, **more)[0]


class TestWaiting:
    """Reasons why a task has not begun."""

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (
                unschedulable(
                    "0/3 nodes are available: 3 Insufficient rdma/ib. preemption: 0/3 nodes are "
                    "available: 3 No preemption victims found for incoming pod."
                ),
                "waiting for a node: 3 Insufficient rdma/ib",
            ),
            (unschedulable(""), "waiting for a node: none fits"),
            (
                held("ImagePullBackOff", 'Back-off pulling image "own:1"'),
                'its image own:1 cannot be pulled: Back-off pulling image "own:1"',
            ),
            (held("ErrImagePull", ""), "its image own:1 cannot be pulled: ErrImagePull"),
            (
                held("CreateContainerConfigError", 'secret "x" not found'),
                'its container cannot be made: secret "x" not found',
            ),
            (held("ContainerCreating", ""), "its pod is starting"),
            ({}, "its pod is starting"),
        ],
    )
    def test_kubernetes_queued_task_reason_is_that_of_its_pod(
        self, status: dict[str, Any], expected: str
    ) -> None:
        found = seen(SWEEP, 2, job(), pod(0, "Running"), pod(1, "Pending", **status))
        assert found == (JobView("queued", expected), f"{NAME}-1-abcde")

    def test_kubernetes_reason_from_foreign_text_is_one_printable_line(self) -> None:
        """Reasons are shown on terminals."""
        text = "no\x1b[31m\nroom \u202e" + "x" * 999
        said = why_pending(pod(0, "Pending", **unschedulable(text)))
        assert said.startswith("waiting for a node: no [31m room x")
        assert said.isprintable()
        assert len(said) < 400

    def test_kubernetes_suspended_job_gives_the_reason_of_its_queue_or_how_to_resume(self) -> None:
        """In the latter case its pod has ended, and its index has not."""
        why = "waiting for quota: insufficient quota for\nnvidia.com/gpu, 8 more needed."
        found = view(GANG, 3, job(suspend=True), queue_reasons={"u-1": why})
        said = "waiting for quota: insufficient quota for nvidia.com/gpu, 8 more needed"
        assert found == JobView("queued", said)
        waits = job(suspend=True)
        waits["metadata"]["labels"] = {QUEUE: "nd"}
        assert view(GANG, 3, waits) == JobView("queued", "waiting for its turn in the queue")
        ended = pod(0, "Failed", **terminated(143, "Error"))
        found = view(GANG, 3, job(suspend=True), ended)
        resume = f'kubectl -n research patch job {NAME} -p \'{{"spec": {{"suspend": false}}}}\''
        said = f"somebody has suspended its Job; to resume it: {resume}"
        assert found == JobView("queued", said)

    def test_kubernetes_queued_task_reason_includes_that_of_the_autoscaler(self) -> None:
        lacks = "1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {sku: gpu}"
        facts = pod(1, "Pending", **unschedulable(f"0/3 nodes are available: {lacks}."))
        found = view(SWEEP, 2, job(), facts, scaling={"": Scaling("the pool scales up")})
        assert found.reason == f"waiting for a node: {lacks}; the pool scales up"

    def test_kubernetes_queued_task_reason_names_broken_nodes_of_its_pool(self) -> None:
        waiting = pod(1, "Pending", **unschedulable("0/9 nodes are available: 9 unfit."))
        waiting["spec"] = {"nodeSelector": {"agentpool": "nd"}}
        nodes = [
            {
                "metadata": {
                    "name": f"{pool}-{number}",
                    "labels": {"agentpool": pool},
                    "annotations": {CORDONED: "7 of 8 GPUs"},
                }
            }
            for pool in ("nd", "other")
            for number in range(4)
        ]
        found = view(SWEEP, 2, job(), waiting, broken=nodes)
        broken = "nd-0: 7 of 8 GPUs; nd-1: 7 of 8 GPUs; nd-2: 7 of 8 GPUs and 1 more"
        assert found.reason == f"waiting for a node: 9 unfit; broken: {broken}"
        found = view(SWEEP, 2, job(), waiting, broken=nodes[4:])
        assert found.reason == "waiting for a node: 9 unfit"

    def test_kubernetes_task_without_a_pod_waits_for_its_turn(self) -> None:
        found = view(SWEEP, 5, job(), pod(0, "Running"))
        assert found == JobView("queued", "waiting for its turn")

    def test_kubernetes_gang_with_pending_pods_reports_how_many_run_and_why(self) -> None:
        """The report includes since when nodes are being started for it."""
        none = unschedulable("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        pods = [pod(0, "Running"), pod(1, "Pending", **none), pod(2, "Pending", **none)]
        pods[1]["metadata"]["uid"] = "u-1"
        scaled = {
            each: Scaling("the pool scales up", at) for each, at in (("u-1", 60.0), ("", 9.0))
        }
        found = Objects({NAME: job()}, {NAME: pods}, {}, scaled)
        why = "waiting for 2 nodes: 1 Insufficient nvidia.com/gpu; the pool scales up"
        said = f"1 of its 3 pods run: {why}"
        assert missing_pods(found, GANG) == (said, 60.0)
        assert view_of(found, GANG, 3) == (JobView("running", said), f"{NAME}-0-abcde")
        pods[0] = pod(0, "Pending", **none)
        facts = view_of(found, GANG, 3)
        assert facts[0].reason == why.replace("2", "3")
        assert missing_pods(Objects({NAME: job()}, {NAME: [pod(0, "Running")]}), SWEEP) == ("", 0.0)

    @pytest.mark.parametrize(
        ("began", "now", "more", "found"),
        [
            (0, 1800, {}, []),
            (0, 1801, {}, [f"{NAME}-1-abcde"]),  # a requested node has not come
            (-601, 0, {}, [f"{NAME}-1-abcde"]),  # it replaces another pod
            (-600, 0, {}, []),
            (-601, 0, {"annotations": {}}, []),
            (-601, 0, {"deletionTimestamp": ENDED}, []),
        ],
    )
    def test_kubernetes_node_request_that_brings_no_more_nodes_is_detected(
        self, began: float, now: float, more: dict[str, Any], found: list[str]
    ) -> None:
        waits = pod(1, "Pending", **unschedulable("0/1 nodes are available: no."))
        made = parse_time(waits["metadata"]["creationTimestamp"])
        waits["metadata"] |= {"annotations": {REQUESTED: "nodes-1"}, **more}
        start = datetime.fromtimestamp(made + began, UTC).isoformat()
        seen = Objects({NAME: job({"startTime": start})}, {NAME: [waits, pod(2, "Pending")]})
        assert [*unrequested_pods(seen, NAME, made + now)] == found


class TestEnded:
    """Ends that a task could not record itself."""

    @pytest.mark.parametrize(
        ("status", "code", "reason"),
        [
            (terminated(137, "OOMKilled"), 137, "out of memory"),
            (
                {"reason": "Evicted", "message": "The node was low on ephemeral-storage. "},
                5,
                "evicted: The node was low on ephemeral-storage",
            ),
            ({"reason": "DeadlineExceeded"}, 124, "its time limit in Kubernetes was over"),
            (
                terminated(128, "StartError", message='exec: "python3": not found'),
                127,
                'its image cannot run python3: exec: "python3": not found',
            ),
            (
                terminated(1, "Error"),
                5,
                f"its pod ended before it could report why: kubectl logs {NAME}-1-abcde",
            ),
        ],
    )
    def test_kubernetes_failed_pod_gives_exit_code_and_reason(
        self, status: dict[str, Any], code: int, reason: str
    ) -> None:
        found = view(SWEEP, 2, job({"failedIndexes": "1"}), pod(1, "Failed", **status))
        assert (found.state, found.exit_code, found.reason) == ("failed", code, reason)
        assert found.timed_out is (code == 124)
        assert found.unreported is ("report" in reason)

    def test_kubernetes_deleted_pod_is_reported_without_its_name(self) -> None:
        found = view(SWEEP, 2, job({"failedIndexes": "1"}))
        assert found.reason == "its pod ended or was deleted before it could report why"
        assert found.unreported

    def test_kubernetes_failed_task_reason_is_that_of_its_newest_pod(self) -> None:
        pods = [
            pod(1, "Failed", age=9, **terminated(143, "Error")),
            pod(1, "Failed", **terminated(137, "OOMKilled")),
        ]
        assert view(SWEEP, 2, job({"failedIndexes": "1"}), *pods).reason == "out of memory"

    @pytest.mark.parametrize(
        ("kind", "reason"),
        [
            ("SuccessCriteriaMet", "SuccessPolicy"),
            ("Complete", "SuccessPolicy"),
            ("FailureTarget", "PodFailurePolicy"),
            ("Failed", "PodFailurePolicy"),
        ],
    )
    def test_kubernetes_gang_task_ends_with_its_job(self, kind: str, reason: str) -> None:
        """The task's own record decides if it has succeeded."""
        found = view(GANG, 3, job(over(kind, reason)))
        assert (found.state, found.unreported, found.ended) == ("failed", True, parse_time(ENDED))

    def test_kubernetes_index_without_an_end_time_gets_that_of_its_job(self) -> None:
        """The other tasks of a sweep may continue, and pods that succeeded are not listed."""
        known = {"completedIndexes": "0"}
        assert view(SWEEP, 0, job(known)).ended == 0.0
        ended = {**known, **over("Complete", "CompletionsReached")}
        assert view(SWEEP, 0, job(ended)).ended == parse_time(ENDED)

    def test_kubernetes_success_ends_with_its_job_and_not_with_an_evicted_pod(self) -> None:
        evicted = pod(0, "Failed", age=50, **terminated(143, "Error", finishedAt=LONG_AGO))
        found = view(GANG, 3, job(over("SuccessCriteriaMet", "SuccessPolicy")), evicted)
        assert found.ended == parse_time(ENDED)

    def test_kubernetes_gang_first_pod_has_its_grace_if_another_failed(self) -> None:
        found = view(GANG, 3, job(over("FailureTarget", "PodFailurePolicy")), pod(0, "Running"))
        assert found == JobView("running")
        found = view(GANG, 3, job(over("Failed", "PodFailurePolicy")), pod(0, "Running"))
        assert found.state == "failed"

    def test_kubernetes_task_without_a_job_is_lost(self) -> None:
        assert view(SWEEP, 0, None) == JobView("lost", "its Job is gone from Kubernetes")
