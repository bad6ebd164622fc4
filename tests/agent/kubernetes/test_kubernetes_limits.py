"""Tasks that a user or the limits of their run end, and limits of restarts: with a fake clock and
hand-computed figures."""

import json
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_server import Cluster
from clocks import Clock
from programs import finished

from fairway_agent import control, limits, reconcile, state_files
from fairway_agent.kubernetes import pod
from fairway_agent.kubernetes.pod import PodNodes
from fairway_agent.limits import Watch
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.state_files import RunState, TaskState
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.scheduled import prepare
from fairway_agent.task.task import Task


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_kubernetes_cancel_of_a_task_deletes_only_its_pod(cluster: Cluster, phase: str) -> None:
    """The pod gets its own signal and grace; the pods at other indices are other tasks'."""
    folder = cluster.submitted([1, 1, 1])
    kept = [cluster.server.pod("job-a-0-0", 0), cluster.server.pod("job-a-0-0", 2)]
    gone = cluster.server.pod("job-a-0-0", 1, phase)
    if phase == "Running":
        cluster.wrote(folder, "1", "running", job=gone, started=1.0)
    cluster.cancel(task="1")
    assert [*cluster.server.of("pods")] == kept
    assert [*cluster.server.of("jobs")] == ["job-a-0-0", "job-a-0-controller"]
    if phase == "Running":
        cluster.wrote(folder, "1", "cancelled", exit_code=130, ended=2.0)
    assert cluster.state(folder).tasks["cancelled"] == 1


def test_kubernetes_cancel_of_a_queued_task_ends_it_at_once_and_its_job_last(
    cluster: Cluster,
) -> None:
    """The index has no pod yet, and nothing waits for a node for it once the run is over."""
    folder = cluster.submitted([1, 1], max_parallel=1)
    first = cluster.server.pod("job-a-0-0", 0)
    cluster.wrote(folder, "0", "running", job=first, started=1.0)
    cluster.cancel(task="1")
    assert cluster.state(folder).tasks == {"running": 1, "cancelled": 1}
    cluster.wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=2.0)
    cluster.server.of("pods").clear()
    assert cluster.state(folder).tasks == {"succeeded": 1, "cancelled": 1}
    assert "job-a-0-0" in cluster.server.of("jobs")  # reading the state changes nothing
    cluster.controller(folder).step()
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    known = state_files.read_run(folder)
    assert known.state == "cancelled"


def test_kubernetes_job_of_a_cancelled_task_stays_if_the_other_tasks_ended_it(
    cluster: Cluster,
) -> None:
    """The Job waits for nothing, and its pods can still be inspected."""
    folder = cluster.submitted([1, 1])
    cluster.cancel(task="1")
    cluster.wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=2.0)
    ended = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-23T19:00:00Z"}]
    cluster.server.of("jobs")["job-a-0-0"]["status"] = {"conditions": ended}
    cluster.wrote(folder, "1", "cancelled", exit_code=130, ended=2.0)
    cluster.controller(folder).step()
    assert cluster.state(folder).tasks == {"succeeded": 1, "cancelled": 1}
    assert [*cluster.server.of("jobs")] == ["job-a-0-0", "job-a-0-controller"]


def test_kubernetes_controller_does_not_start_cancelled_tasks(cluster: Cluster) -> None:
    """Except in a retry: the cancellation was for the earlier submission."""
    folder = cluster.submitted([2, 2, 2], last=True, max_parallel=1)
    assert cluster.due(folder) == [0]
    cluster.cancel(task="0")
    assert cluster.due(folder) == [1]
    known = control.read(folder)
    later = replace(known.of(1), parts=known.parts, complete=True)
    assert cluster.due(folder, later) == [0]
    assert cluster.state(folder).tasks == {"cancelled": 1, "queued": 3}
    cluster.controller(folder).start()
    cluster.cancel(task="1")
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"], "a task on several nodes"
    cluster.cancel(task="2")
    assert cluster.state(folder).tasks == {"cancelled": 3, "queued": 1}
    assert cluster.due(folder) == [3]  # the last task runs all the same
    cluster.cancel(task="finally")
    assert cluster.due(folder) == []
    assert cluster.state(folder).tasks == {"cancelled": 4}


def test_kubernetes_cancel_ignores_pods_of_another_folder_and_removed_runs(
    cluster: Cluster,
) -> None:
    cluster.cancel(task="1")
    assert not (cluster.shared / "runs").exists()
    folder = cluster.submitted([1, 1])
    name = cluster.server.pod("job-a-0-0", 1)
    [container] = cluster.server.of("pods")[name]["spec"]["containers"]
    container["command"] = [
        each.replace(str(cluster.shared), "/their") for each in container["command"]
    ]
    cluster.cancel(task="1")
    assert name in cluster.server.of("pods")
    assert control.read(folder).cancelled_names == {"1"}


AT = 1e9
# 200 dollars at 12.50 an hour are 57,600 node-seconds.
COST = {"max_cost": {"most": 200.0, "currency": "USD", "hourly": 12.5}}
EVICTED = TaskState("running", attempt=0, started=1.0, held=9.0, stopped=True, ended=10.0)
LOST = TaskState("running", attempt=0, started=1.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, limits, reconcile, now=AT)


def evicted(known: TaskState, seen: bool) -> TaskState:
    """Returns the state of a task whose pod was ended, `seen` by a reconcile meanwhile or not."""
    view = reconcile.JobView("queued", "waiting for its turn") if seen else None
    return reconcile.resolve(known, view, cancelled=False, now=0.0)


@pytest.mark.parametrize("seen", [False, True], ids=["at once", "after somebody looked"])
@pytest.mark.parametrize(
    ("known", "before", "limits", "reason"),
    [
        (EVICTED, {"preemption": 7}, {}, None),
        (EVICTED, {}, {"preemption": 1}, None),
        (EVICTED, {"preemption": 1}, {"preemption": 1}, "its nodes were taken away"),
        (EVICTED, {"node": 3}, {"preemption": 1, "node": 3}, None),
        (EVICTED, {}, {"preemption": 0}, "its nodes were taken away"),
        (LOST, {}, {"node": 1, "preemption": 0}, None),
        (LOST, {"node": 1}, {"node": 1}, "a node of it was lost"),
        (LOST, {"error": 5}, {"node": 0}, "a node of it was lost"),
    ],
)
def test_kubernetes_task_whose_pod_is_gone_restarts_within_its_retry_limits(
    tmp_path: Path,
    known: TaskState,
    before: dict[str, int],
    limits: dict[str, int],
    reason: str | None,
    seen: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next pod reads the counts of the earlier ones and ends at once if a limit is used up."""
    monkeypatch.setenv("_FAIRWAY_POD", "job-a-0-0-0-abcde")
    plan = RunPlan("job-a", str(tmp_path), retry_limits=limits)
    folder = tmp_path / "tasks" / "0"
    folder.mkdir(parents=True)
    left = replace(known, submission=0, failures_by_cause=before or None)
    state_files.write(folder, evicted(left, seen))
    task = Task(plan, TaskSpec(0), tmp_path, folder, nodes=PodNodes(), submission=0)
    here, there = socket.socketpair()
    with here, there:
        scheduler = pod.Kubernetes(here, Watch(tmp_path, plan, 0), nodes=PodNodes(), part=None)
        scheduler.prepare = lambda _: None  # type: ignore[method-assign]
        attempts = Attempts(task, scheduler)
        prepare(attempts, scheduler)
    assert attempts.state == ("queued" if reason is None else "failed")
    cause = "preemption" if known is EVICTED else "node"
    if reason is not None:
        used = f"`retry: {{{cause}: {limits[cause]}}}` is used up"
        found = state_files.read_task(folder)
        assert (found.state, found.reason) == ("failed", f"{reason}; {used}")
    assert task.failures_by_cause == {**before, cause: before.get(cause, 0) + 1}


@pytest.mark.parametrize(
    ("state", "code", "leaves_with"),
    [
        pytest.param("stopped", 143, 143, id="ended by Kubernetes: another pod begins"),
        pytest.param("failed", 143, 1, id="its own program ended with that code"),
        ("failed", 7, 7),
        ("cancelled", 130, 130),
        ("succeeded", 0, 0),
    ],
)
def test_kubernetes_pod_exits_with_143_only_if_another_pod_is_to_begin(
    state: str, code: int, leaves_with: int
) -> None:
    assert pod.exit_code(state, code) == leaves_with


_TOLD_WHILE_IT_IMPORTS = """import os, runpy, signal, sys
from fairway_agent import main
run = runpy.run_module
def told(*words, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return run(*words, **options)
runpy.run_module = told
main.main()"""


@pytest.mark.parametrize(
    ("program", "leaves_with"),
    [
        ("kubernetes.controller", 143),
        ("kubernetes.pod", 1),  # it continues, and finds no scratch here
        ("kubernetes.node_health", -signal.SIGTERM),  # not the first process of a run's pod
    ],
)
def test_kubernetes_pod_handles_a_sigterm_that_comes_while_it_imports(
    tmp_path: Path, program: str, leaves_with: int
) -> None:
    words = [f"fairway_agent.{program}", str(tmp_path), "0", "0", "0"]
    done = finished([sys.executable, "-c", _TOLD_WHILE_IT_IMPORTS, *words])
    assert done.returncode == leaves_with, done.stderr


def test_kubernetes_pod_of_an_ended_task_does_not_run_it_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes may have lost the pod in which the task ended, as it does for a suspended Job."""
    folder = cluster.submitted([1])
    cluster.wrote(folder, "0", "failed", exit_code=143, attempt=0, submission=0, ended=1.0)
    monkeypatch.setattr(pod, "hold_scratch", lambda _: None)
    monkeypatch.setattr(pod, "run_attempts", lambda *_: pytest.fail("it began again"))
    monkeypatch.setattr(pod.processes, "signal_wakeups", lambda *_: (None, None))
    monkeypatch.setattr(pod.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["pod", str(folder), "tasks", "0", "0"])
    with pytest.raises(SystemExit) as ended:
        pod.main()
    assert ended.value.code == 1


def submitted(cluster: Cluster, **plan: Any) -> Path:
    """Submits two tasks on four nodes each, of which the first has a pod."""
    folder = cluster.submitted([4, 4], **plan)
    cluster.server.pod("job-a-0-0", 0)
    return folder


def state(cluster: Cluster, folder: Path) -> RunState:
    """Returns the run's state after a step of its controller."""
    cluster.controller(folder).step()
    return state_files.read_run(folder)


def test_kubernetes_max_cost_counts_time_held_by_evicted_pods(
    cluster: Cluster, clock: Clock
) -> None:
    """4 nodes for 3 h until the eviction are 12 of 16 node hours; the other 4 are one more hour of
    the new pods. Tasks that wait for nodes do not begin then."""
    folder = submitted(cluster, **COST)
    plan = RunPlan.from_json(json.loads((folder / "plan.json").read_text()))
    first = Watch(folder, plan, 0)
    first.begin()
    pod = "job-a-0-0-0-abcde"
    cluster.wrote(folder, "0", "running", job=pod, attempt=1, started=AT, held=3 * 3600.0)
    clock.now = AT + 3599
    assert not first.is_over()
    clock.now += 1
    assert Watch(folder, plan, 0).look_back()
    going = state(cluster, folder)
    assert (going.state, going.reason) == ("running", "it was over its max_cost of 200 USD")
    assert (going.tasks, going.exit_code) == ({"running": 1, "queued": 1}, None)
    assert "job-a-0-0" in cluster.server.of("jobs"), "it has its grace"
    cluster.wrote(folder, "0", "failed", exit_code=124, started=AT, ended=clock.now)
    state(cluster, folder)
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    found = state(cluster, folder)
    assert (found.state, found.limit, found.exit_code) == ("failed", "max_cost", 124)
    assert found.reason == going.reason
    assert found.tasks == {"failed": 1, "cancelled": 1}


def test_kubernetes_max_duration_counts_while_an_evicted_task_waits_for_pods(
    cluster: Cluster, clock: Clock
) -> None:
    """No pod runs after the eviction: the controller's next step ends the run when its time is
    over."""
    folder = submitted(cluster, max_duration=3600.0)
    plan = RunPlan.from_json(json.loads((folder / "plan.json").read_text()))
    assert state(cluster, folder).state == "queued"
    clock.now += 7200  # in the queue: that costs nothing
    assert state(cluster, folder).state == "queued"
    Watch(folder, plan, 0).begin()
    cluster.wrote(folder, "0", "running", job="q", started=clock.now, stopped=True)
    cluster.server.pod("job-a-0-0", 0, "Pending")
    clock.now += 3599
    assert state(cluster, folder).limit is None
    clock.now += 1
    state(cluster, folder)
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    found = state(cluster, folder)
    assert (found.state, found.limit) == ("failed", "max_duration")
    assert found.reason == "it was over its max_duration of 1h"
