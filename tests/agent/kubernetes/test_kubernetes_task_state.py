"""What becomes of a task, from its own word and the API server's: objects as a server of 1.36 gave
them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway_agent.kubernetes.objects import Objects, moment
from fairway_agent.kubernetes.queueing import Why
from fairway_agent.kubernetes.task_state import Element, element_of, resolve_state, why_pending
from fairway_agent.shared.submissions import Part
from fairway_agent.task_state import TaskState

NOW = 1_700_000_000.0
LONG_AGO = "2023-11-14T19:10:00Z"
ENDED = "2023-11-14T20:00:00Z"
NAME = "digits-7k2m9p-0-0"
SWEEP = Part("tasks", 0, [0, 2, 5], 1, 1, job=NAME)
GANG = Part("tasks", 0, [3], 3, 8, job=NAME)
RUNNING = TaskState("running", attempt=1, started=NOW - 60, node="nd-1", job=f"{NAME}-0-abcde")


def job(status: dict[str, Any] | None = None, *, suspend: bool = False) -> dict[str, Any]:
    facts = {"name": NAME, "uid": "u-1"}
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
    part: Part,
    index: int,
    found: dict[str, Any] | None,
    *pods: dict[str, Any],
    held_by: Why | None = None,
    scaling: Why | None = None,
) -> Element | None:
    jobs = {NAME: found} if found else {}
    held = {"u-1": held_by} if held_by else {}
    scaled = {"": scaling} if scaling else {}
    return element_of(Objects(jobs, {NAME: list(pods)}, held, scaled), part, index)


def resolved(status: TaskState | None, element: Element | None, **more: Any) -> TaskState:
    facts = {"cancelled": False, "now": NOW, **more}
    return resolve_state(status, element, **facts).status


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
@pytest.mark.parametrize("element", [None, Element("failed", "evicted: x"), Element("waiting")])
def test_a_tasks_last_word_stands(state: str, element: Element | None) -> None:
    status = TaskState(state, exit_code=3)
    assert resolved(status, element, cancelled=True) == status


class TestWaiting:
    """Why a task has not begun."""

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
    def test_what_is_known_of_its_pod_is_said(self, status: dict[str, Any], expected: str) -> None:
        element = seen(SWEEP, 2, job(), pod(0, "Running"), pod(1, "Pending", **status))
        assert element == Element("waiting", expected, pod=f"{NAME}-1-abcde")

    def test_words_of_others_are_one_line_and_no_letter(self) -> None:
        """They are shown on terminals."""
        text = "no\x1b[31m\nroom \u202e" + "x" * 999
        said = why_pending(pod(0, "Pending", **unschedulable(text)))
        assert said.startswith("waiting for a node: no [31m room x")
        assert said.isprintable()
        assert len(said) < 400

    def test_a_queue_says_what_it_lacks(self) -> None:
        why = Why("waiting for quota: insufficient quota for\nnvidia.com/gpu, 8 more needed.", True)
        element = seen(GANG, 3, job(suspend=True), held_by=why)
        said = "waiting for quota: insufficient quota for nvidia.com/gpu, 8 more needed"
        assert element == Element("waiting", said, no_capacity=True)
        element = seen(GANG, 3, job(suspend=True))
        assert element == Element("waiting", "waiting for its turn in the queue")

    @pytest.mark.parametrize(
        ("message", "scaling", "age", "why", "no_capacity"),
        [
            pytest.param("1 Insufficient cpu", None, 9e9, "1 Insufficient cpu", False, id="busy"),
            pytest.param(
                "1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {sku: gpu}",
                Why("nodes are being started for it", is_starting=True),
                9e9,
                "2 node(s) had untolerated taint {sku: gpu}; nodes are being started for it",
                False,
                id="nodes are coming",
            ),
            pytest.param(
                "1 Insufficient nvidia.com/gpu",
                Why("the autoscaler starts none: 1 in backoff after failed scale-up", True),
                0.0,
                "gpu; the autoscaler starts none: 1 in backoff after failed scale-up",
                True,
                id="Azure has no more",
            ),
            pytest.param("3 node(s) were unschedulable", None, 170.0, "", False, id="not yet"),
            pytest.param("3 node(s) were unschedulable", None, 190.0, "", True, id="drained"),
            pytest.param("", None, 190.0, "none fits", True, id="no node at all"),
            pytest.param(
                "3 node(s) didn't match Pod's node affinity/selector",
                Why("nodes are being started for it", is_starting=True),
                190.0,
                "affinity/selector; nodes are being started for it",
                False,
                id="the first node is coming",
            ),
        ],
    )
    def test_nodes_that_cannot_be_had_are_told_from_busy_ones(
        self, message: str, scaling: Why | None, age: float, why: str, no_capacity: bool
    ) -> None:
        """A run that may go elsewhere leaves the first, and waits for the second."""
        status = unschedulable(f"0/3 nodes are available: {message}.")
        status["conditions"][0]["lastTransitionTime"] = ENDED
        element = seen(SWEEP, 2, job(), pod(1, "Pending", **status), scaling=scaling)
        found = resolve_state(None, element, cancelled=False, now=moment(ENDED) + age)
        assert found.waits.startswith("waiting for a node: ")
        assert found.waits.endswith(why)
        assert found.no_capacity is no_capacity

    def test_other_tasks_come_first(self) -> None:
        assert seen(SWEEP, 5, job(), pod(0, "Running")) == Element(
            "waiting", "waiting for its turn"
        )

    def test_what_lacks_some_of_its_pods_says_which(self) -> None:
        lacking = unschedulable("0/2 nodes are available: 2 Insufficient cpu.")
        pods = [pod(0, "Running"), pod(1, "Running"), pod(2, "Pending", **lacking)]
        element = seen(GANG, 3, job(), *pods)
        why = "2 of its 3 pods run: waiting for a node: 2 Insufficient cpu"
        assert element == Element("running", why, pod=f"{NAME}-0-abcde")
        assert resolved(TaskState(), element).reason is None
        assert resolve_state(TaskState(), element, cancelled=False, now=NOW).waits == why
        # Once it runs it has been whole.
        assert resolved(RUNNING, element) == RUNNING

    def test_it_counts_on_where_another_pod_takes_its_place(self) -> None:
        stopped = replace(RUNNING, stopped=True)
        again = seen(SWEEP, 0, job(), replace_name(pod(0, "Pending"), "fghij"))
        found = resolved(stopped, again)
        assert (found.state, found.attempt, found.reason) == ("queued", 1, "its pod is starting")
        assert found.ends == {"preemption": 1}
        assert resolved(RUNNING, again).ends == {"node": 1}

    def test_a_pod_that_has_begun_since_it_was_listed_goes_on(self) -> None:
        assert resolved(RUNNING, seen(SWEEP, 0, job(), pod(0, "Pending"))) == RUNNING

    def test_a_job_that_is_to_be_made_is_waited_for(self) -> None:
        found = resolve_state(
            None, None, cancelled=False, now=NOW, to_come="waiting for other tasks"
        )
        assert (found.state, found.waits) == ("queued", "waiting for other tasks")


def replace_name(found: dict[str, Any], end: str) -> dict[str, Any]:
    name = f"{found['metadata']['name'][:-5]}{end}"
    return {**found, "metadata": {**found["metadata"], "name": name}}


class TestEnded:
    """What a task could not write itself."""

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
    def test_why_it_failed_is_said(self, status: dict[str, Any], code: int, reason: str) -> None:
        element = seen(SWEEP, 2, job({"failedIndexes": "1"}), pod(1, "Failed", **status))
        found = resolved(RUNNING, element)
        assert (found.state, found.exit_code, found.reason) == ("failed", code, reason)
        assert found.timed_out is (code == 124)

    def test_memory_is_a_reason_that_a_task_cannot_know(self) -> None:
        element = seen(
            SWEEP, 2, job({"failedIndexes": "1"}), pod(1, "Failed", **terminated(137, "OOMKilled"))
        )
        known = TaskState("failed", exit_code=137)
        assert resolved(known, element).reason == "out of memory"

    def test_the_newest_of_its_pods_says_it(self) -> None:
        pods = [
            pod(1, "Failed", age=9, **terminated(143, "Error")),
            pod(1, "Failed", **terminated(137, "OOMKilled")),
        ]
        element = seen(SWEEP, 2, job({"failedIndexes": "1"}), *pods)
        assert element is not None
        assert element.why == "out of memory"

    @pytest.mark.parametrize(
        ("kind", "reason", "state"),
        [
            ("SuccessCriteriaMet", "SuccessPolicy", "succeeded"),
            ("Complete", "SuccessPolicy", "succeeded"),
            ("FailureTarget", "PodFailurePolicy", "failed"),
            ("Failed", "PodFailurePolicy", "failed"),
        ],
    )
    def test_a_task_on_several_nodes_ends_with_its_job(
        self, kind: str, reason: str, state: str
    ) -> None:
        element = seen(GANG, 3, job(over(kind, reason)))
        assert element is not None
        assert element.state == state

    def test_last_words_may_be_on_their_way(self) -> None:
        soon = moment(ENDED) + 10
        element = seen(SWEEP, 0, job({"completedIndexes": "0"}), pod(0, "Succeeded"))
        assert element is not None
        fresh = replace(element, ended=soon - 10)
        assert resolved(RUNNING, fresh, now=soon) == RUNNING
        assert resolved(RUNNING, fresh, now=soon + 120).state == "failed"

    def test_an_index_whose_end_has_no_time_waits_for_its_jobs(self) -> None:
        """The other tasks of a sweep may go on, and those that succeeded are not listed."""
        known = {"completedIndexes": "0"}
        assert resolved(RUNNING, seen(SWEEP, 0, job(known))) == RUNNING
        ended = {**known, **over("Complete", "CompletionsReached")}
        assert resolved(RUNNING, seen(SWEEP, 0, job(ended))).state == "failed"

    def test_a_success_is_as_old_as_its_jobs_and_not_as_a_pod_that_was_evicted(self) -> None:
        evicted = pod(0, "Failed", age=50, **terminated(143, "Error", finishedAt=LONG_AGO))
        element = seen(GANG, 3, job(over("SuccessCriteriaMet", "SuccessPolicy")), evicted)
        assert resolved(RUNNING, element, now=moment(ENDED) + 1) == RUNNING

    def test_a_first_pod_has_its_grace_where_another_has_failed(self) -> None:
        found = seen(GANG, 3, job(over("FailureTarget", "PodFailurePolicy")), pod(0, "Running"))
        assert resolved(RUNNING, found) == RUNNING
        found = seen(GANG, 3, job(over("Failed", "PodFailurePolicy")), pod(0, "Running"))
        assert resolved(RUNNING, found).state == "failed"

    def test_what_is_gone_is_lost_or_was_cancelled(self) -> None:
        found = resolved(RUNNING, None)
        assert (found.state, found.reason) == ("lost", "its Job is gone from Kubernetes")
        found = resolved(RUNNING, None, cancelled=True)
        assert (found.state, found.exit_code, found.reason) == ("cancelled", 130, None)
