"""How often a task begins again on Kubernetes, and what its run may take and cost: by a clock of
the test's own, and figures by hand."""

from __future__ import annotations

import io
import json
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import job_facts, reconcile, state_files
from fairway_agent.kubernetes import pod, submit
from fairway_agent.kubernetes.controller import Controller
from fairway_agent.kubernetes.objects import INDEX, JOB
from fairway_agent.nodes.pods import PodNodes
from fairway_agent.shared import watch
from fairway_agent.shared.watch import Watch
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.state_files import TaskState
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.scheduled import run_attempts
from fairway_agent.task.task import Task

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster, Server

    from fairway_agent.state_files import RunState

AT = 1e9
# 200 dollars at 12.50 an hour are 57,600 node-seconds.
COST = {"max_cost": {"most": 200.0, "currency": "USD", "hourly": 12.5}}
EVICTED = TaskState("running", attempt=0, started=1.0, held=9.0, stopped=True, ended=10.0)
LOST = TaskState("running", attempt=0, started=1.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(now=AT)
    for module in (watch, reconcile):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now.now))
    return now


def evicted(known: TaskState, seen: bool) -> TaskState:
    """Its pod was ended, and another is to begin: `seen` by somebody who looked meanwhile."""
    view = reconcile.JobView("queued", "waiting for its turn") if seen else None
    return reconcile.resolve(known, view, cancelled=False, now=0.0)


@pytest.mark.parametrize("seen", [False, True], ids=["at once", "after somebody looked"])
@pytest.mark.parametrize(
    ("known", "before", "limits", "reason"),
    [
        (EVICTED, {}, {}, None),
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
def test_a_task_whose_pod_is_gone_begins_again_as_often_as_the_job_says(
    tmp_path: Path,
    known: TaskState,
    before: dict[str, int],
    limits: dict[str, int],
    reason: str | None,
    seen: bool,
) -> None:
    """The next pod finds what the ones before have left; where that is enough it ends at once."""
    plan = RunPlan("job-a", str(tmp_path), retry_limits=limits)
    folder = tmp_path / "tasks" / "0"
    folder.mkdir(parents=True)
    left = replace(known, submission=0, ends=before or None)
    state_files.write(folder, evicted(left, seen))
    task = Task(plan, TaskSpec(0), tmp_path, folder, nodes=PodNodes(), submission=0)
    begun: list[int] = []

    class Ends(pod.Kubernetes):
        def begin(self, _: Task) -> bool:
            begun.append(1)
            self.asked = "ended"
            return False

        def prepare(self, _: Task) -> None: ...

    part: Any = None
    here, there = socket.socketpair()
    with here, there, pytest.MonkeyPatch.context() as patch:
        patch.setenv("_FAIRWAY_POD", "job-a-0-0-0-abcde")
        limits_watch = Watch(tmp_path, plan, 0)
        scheduler = Ends(state_files.States(), here, limits_watch, nodes=PodNodes(), part=part)
        run_attempts(Attempts(task, scheduler), scheduler)
    found = state_files.read_task(folder)
    assert found is not None
    if reason is None:
        assert begun == [1]
    else:
        assert (begun, found.state) == ([], "failed")
        cause = next(iter(limits.keys() & {"preemption" if known is EVICTED else "node"}))
        used = f"`retry: {{{cause}: {limits[cause]}}}` is used up"
        assert found.reason == f"{reason}; {used}"
    cause = "preemption" if known is EVICTED else "node"
    assert task.failures_by_cause == {**before, cause: before.get(cause, 0) + 1}


def state(server: Server, folder: Path) -> RunState:
    """As the run's controller leaves it."""
    Controller(server, folder, 0, job_facts.read_shared_plan(folder)).step()  # type: ignore[arg-type]
    found = state_files.read_run(folder)
    assert found is not None
    return found


def submitted(
    cluster: Cluster, server: Server, monkeypatch: pytest.MonkeyPatch, **plan: Any
) -> Path:
    """Two tasks on four nodes each, of which the first has its pods."""
    monkeypatch.setattr(submit, "Api", lambda: server)
    folder = cluster.bring("job-a", [4, 4], **plan)
    submit.answer(cluster.shared, cluster.request("job-a"), io.BytesIO())
    facts = {
        "name": "p",
        "labels": {JOB: "job-a-0-0", INDEX: "0"},
        "creationTimestamp": "2001-09-09T01:46:40Z",
    }
    server.of("pods")["p"] = {"metadata": facts, "status": {"phase": "Running"}}
    return folder


def wrote(folder: Path, task: str, status: TaskState) -> None:
    (folder / "tasks" / task).mkdir(parents=True, exist_ok=True)
    state_files.write(folder / "tasks" / task, status)


def test_kubernetes_max_cost_counts_time_held_by_evicted_pods(
    cluster: Cluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 nodes for 3 h until they were evicted are 12 of 16 node hours; the other 4 are one more
    hour of the pods in their place. What waits for nodes does not begin then."""
    folder = submitted(cluster, cluster.server, monkeypatch, **COST)
    plan = RunPlan.from_json(json.loads((folder / "plan.json").read_text()))
    first = Watch(folder, plan, 0)
    first.begin()
    held = TaskState("running", job="p", attempt=1, started=AT, held=3 * 3600.0)
    wrote(folder, "0", held)
    clock.now = AT + 3599
    assert not first.is_over()
    clock.now += 1
    assert Watch(folder, plan, 0).look_back()
    assert state(cluster.server, folder).tasks == {"running": 1, "queued": 1}
    wrote(folder, "0", TaskState("failed", exit_code=124, started=AT, ended=clock.now))
    state(cluster.server, folder)
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    found = state(cluster.server, folder)
    assert (found.state, found.limit, found.exit_code) == ("failed", "max_cost", 124)
    assert found.reason == "it was over its max_cost of 200 USD"
    assert found.tasks == {"failed": 1, "cancelled": 1}


def test_kubernetes_max_duration_counts_while_an_evicted_task_waits_for_pods(
    cluster: Cluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evicted, and nothing of it runs: who looks ends it when its time is over."""
    folder = submitted(cluster, cluster.server, monkeypatch, max_duration=3600.0)
    plan = RunPlan.from_json(json.loads((folder / "plan.json").read_text()))
    assert state(cluster.server, folder).state == "queued"
    clock.now += 7200  # in the queue: that costs nothing
    assert state(cluster.server, folder).state == "queued"
    Watch(folder, plan, 0).begin()
    wrote(folder, "0", TaskState("running", job="q", started=clock.now, stopped=True))
    cluster.server.of("pods")["p"]["status"]["phase"] = "Pending"
    clock.now += 3599
    assert state(cluster.server, folder).limit is None
    clock.now += 1
    state(cluster.server, folder)
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    found = state(cluster.server, folder)
    assert (found.state, found.limit) == ("failed", "max_duration")
    assert found.reason == "it was over its max_duration of 1h"
