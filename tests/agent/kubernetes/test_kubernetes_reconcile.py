"""States of runs after a query of the API server."""

import io
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from api_server import Cluster, Server
from clocks import Clock

from fairway_agent import control, reconcile, state_files
from fairway_agent.kubernetes import controller
from fairway_agent.kubernetes import runs as looking
from fairway_agent.kubernetes.api import DOWN
from fairway_agent.kubernetes.objects import Objects, Scaling, parse_time
from fairway_agent.kubernetes.task_state import PATIENCE
from fairway_agent.shared.reports import RunRequest, StatesRequest
from fairway_agent.spec import Retry
from fairway_agent.state_files import RunState
from fairway_boot import files
from fairway_boot.files import NO_ANSWER, AgentError

JOBS = ["job-a-0-0", "job-a-0-controller"]
FAILED = {"first": "failed"}
ASKED = StatesRequest({"job-a": RunRequest()})


def test_kubernetes_run_lasts_from_its_first_start_to_its_last_end(cluster: Cluster) -> None:
    folder = cluster.submitted([1, 1])
    cluster.wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=4.0)
    cluster.wrote(folder, "1", "failed", exit_code=3, started=2.0, ended=3.0)
    found = cluster.state(folder)
    assert (found.state, found.started, found.ended) == ("failed", 1.0, 4.0)


@pytest.mark.parametrize("last", [False, True])
def test_kubernetes_reconcile_does_not_lose_jobs_created_after_the_list(
    cluster: Cluster, last: bool
) -> None:
    """One process reconciles while another, or the controller, submits."""
    folder = cluster.submitted([1], last=last)
    if last:
        cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
    before = Objects()
    assert looking.reconcile_all(cluster.server, [folder], before) == {}
    found = state_files.read_run(folder)
    assert found.tasks == ({"succeeded": 1, "queued": 1} if last else {"queued": 1})


def test_kubernetes_reconcile_keeps_a_task_running_that_began_after_the_list(
    cluster: Cluster,
) -> None:
    """The task's pod was not in the list yet."""
    folder = cluster.submitted([1])
    before = looking.look(cluster.server, [folder.name])
    pod = cluster.server.pod("job-a-0-0", 0, "Pending")
    cluster.wrote(folder, "0", "running", attempt=0, started=1.0, job=pod)
    assert looking.reconcile_all(cluster.server, [folder], before) == {}
    assert state_files.read_task(folder / "tasks" / "0").state == "running"


def test_kubernetes_controller_notes_that_nodes_are_started_for_a_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task's first pod may not query the API server, and waits as long as nodes are coming."""
    folder, when = cluster.submitted([2]), 1_795_860_000.0
    lacks = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: no."}
    cluster.server.pod("job-a-0-0", 0)
    second = cluster.server.pod("job-a-0-0", 1, "Pending", conditions=[lacks])
    said = Scaling("the pool scales up", when)
    monkeypatch.setattr("fairway_agent.kubernetes.objects.scaling", lambda _: {second: said})
    mine = cluster.controller(folder)
    assert mine.step()
    why = "1 of its 2 pods run: waiting for a node: no; the pool scales up"
    assert control.read(folder).lacking == {"0": (why, when)}
    cluster.server.of("pods")[second]["status"] = {"phase": "Running"}
    assert mine.step()
    assert control.read(folder).lacking == {}


class TestStuck:
    """Pods whose container never starts."""

    WHY = "its image own:1 cannot be pulled: manifest unknown"

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        return Clock.of(monkeypatch, reconcile, controller)

    @pytest.fixture
    def act(self, cluster: Cluster) -> Callable[[Path], RunState]:
        """Returns a function that makes a step of the run's controller, which keeps its memory."""
        found = []

        def step(folder: Path) -> RunState:
            if not found:
                found.append(cluster.controller(folder))
            found[0].step()
            return state_files.read_run(folder)

        return step

    def hold(self, server: Server, index: int, job: str = "job-a-0-0") -> None:
        waiting = {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}
        status = [{"image": "own:1", "state": waiting}]
        server.pod(job, index, "Pending", containerStatuses=status)

    @pytest.mark.parametrize("nodes", [[1, 1, 1], [3]])
    def test_kubernetes_stuck_pods_are_ended_after_a_while_only_by_the_controller(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState], nodes: list[int]
    ) -> None:
        folder = cluster.submitted(nodes)
        self.hold(cluster.server, 0)
        cluster.state(folder)
        clock.now += 9 * PATIENCE
        for look in (cluster.state, act):
            assert (look(folder).state, look(folder).reason) == ("queued", self.WHY)
        clock.now += PATIENCE - 1
        assert act(folder).state == "queued"
        assert ([*cluster.server.of("jobs")], len(cluster.server.of("pods"))) == (JOBS, 1)
        clock.now += 1
        assert act(folder).tasks == {"failed": len(nodes)}
        found = state_files.read_task(folder / "tasks" / "0")
        assert (found.state, found.reason) == ("failed", self.WHY)
        assert [*cluster.server.of("jobs")] == JOBS[1:]  # nothing of it starts later
        assert (cluster.state(folder), act(folder)) == (cluster.state(folder),) * 2

    def test_kubernetes_stuck_pod_that_recovers_is_not_ended(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState]
    ) -> None:
        folder = cluster.submitted([1])
        self.hold(cluster.server, 0)
        act(folder)
        [pod] = cluster.server.of("pods").values()
        waiting = pod["status"].pop("containerStatuses")
        clock.now += PATIENCE
        act(folder)
        pod["status"]["containerStatuses"] = waiting
        assert act(folder).state == "queued"

    def test_kubernetes_stuck_pod_fails_alone_if_other_tasks_have_begun(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState]
    ) -> None:
        folder = cluster.submitted([1, 1])
        self.hold(cluster.server, 1)
        cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
        act(folder)
        clock.now += PATIENCE
        assert act(folder).tasks == {"succeeded": 1, "failed": 1}
        assert (cluster.server.of("pods"), [*cluster.server.of("jobs")]) == ({}, JOBS)

    def test_kubernetes_stuck_gang_pods_are_noted_for_the_first_until_they_start(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState]
    ) -> None:
        """The first pod decides, because it may have begun before: see `gang`."""
        folder = cluster.submitted([3])
        self.hold(cluster.server, 1)
        self.hold(cluster.server, 2)
        act(folder)
        clock.now += PATIENCE - 1
        act(folder)
        assert control.read(folder).blocked == {}
        clock.now += 1
        for index in (2, 1):
            assert act(folder).state == "queued"
            assert control.read(folder).blocked == {"0": self.WHY}
            assert [*cluster.server.of("jobs")] == JOBS
            cluster.server.pod("job-a-0-0", index)
        act(folder)
        assert control.read(folder).blocked == {}

    def test_kubernetes_controller_that_is_refused_or_stuck_is_why_its_tasks_wait_and_fail(
        self, cluster: Cluster, clock: Clock
    ) -> None:
        folder = cluster.submitted([2, 2], max_parallel=1)
        control.note_blocked(folder, 0, "controller", "exceeded quota: team")
        assert cluster.state(folder).reason == "waiting for its turn: exceeded quota: team"
        clock.now = parse_time("2023-11-14T19:50:00Z")
        self.hold(cluster.server, -1, job="job-a-0-controller")
        assert cluster.state(folder).reason == f"waiting for its turn: {self.WHY}"
        clock.now += PATIENCE
        assert cluster.state(folder).tasks == {"failed": 2}
        found = state_files.read_task(folder / "tasks" / "0")
        assert found.reason == f"nothing could start it: {self.WHY}"


def test_kubernetes_controller_that_failed_for_good_is_the_reason_of_its_tasks(
    cluster: Cluster,
) -> None:
    folder = cluster.submitted([1], last=True)
    cluster.wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=2.0)
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    cluster.server.of("jobs")["job-a-0-controller"]["status"] = {"conditions": [failed]}
    control.note_blocked(folder, 0, "controller", "what it last said")
    assert cluster.state(folder).tasks == {"succeeded": 1, "failed": 1}
    found = state_files.read_task(folder / "tasks" / "finally")
    assert found.reason == (
        "its controller has failed for good: kubectl logs job/job-a-0-controller; what it last said"
    )


def test_kubernetes_reconcile_marks_a_task_lost_that_nothing_can_start(cluster: Cluster) -> None:
    folder = cluster.submitted([1], last=True)
    cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
    found = cluster.state(folder)
    assert (found.state, found.reason) == ("running", None)
    cluster.server.of("jobs").pop("job-a-0-controller")
    assert cluster.state(folder).tasks == {"succeeded": 1, "lost": 1}
    deleted = cluster.submitted([1], "job-b")
    cluster.server.objects.clear()
    assert cluster.state(deleted).state == "lost"


def test_kubernetes_run_after_an_expected_failure_begins_once_it_failed(cluster: Cluster) -> None:
    first = cluster.submitted([1], run="first")
    folder = cluster.submitted([1], after=["first"], conditions=FAILED)
    assert cluster.due(folder) == []
    state_files.write(first, RunState("failed", ended=1.0))
    assert cluster.due(folder) == [0]
    state_files.write(first, RunState("succeeded", ended=1.0))  # after a retry
    assert cluster.due(folder) == [0]
    assert cluster.state(folder).state == "queued"


@pytest.mark.parametrize(("state", "conditions"), [("failed", {}), ("succeeded", FAILED)])
def test_kubernetes_run_after_an_unmet_condition_is_cancelled_with_the_reason(
    cluster: Cluster, state: str, conditions: dict[str, str]
) -> None:
    first = cluster.submitted([1], run="first")
    folder = cluster.submitted([1], after=["first"], conditions=conditions)
    assert cluster.state(folder).reason == "waiting for its turn"
    state_files.write(first, RunState(state, ended=1.0))
    files.write_json(folder / "retry.json", Retry(only=(0,), submission=1).to_json())
    for submission in (0, 1):
        if submission:
            cluster.submit("job-a", submission)
        found = cluster.state(folder)
        assert (found.state, found.submission) == ("cancelled", submission)
        assert found.reason == f"not started: first {state}"


def test_kubernetes_reconcile_keeps_known_states_if_the_server_is_silent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submitted([1])

    silent = AgentError(NO_ANSWER, "the API server of Kubernetes does not answer: HTTP 503", DOWN)
    monkeypatch.setattr(cluster.server, "list", Mock(side_effect=silent))
    found = looking.states(cluster.shared, ASKED, io.BytesIO())
    assert found.silent == "the API server of Kubernetes does not answer: HTTP 503"
    report = found.runs["job-a"]
    assert report.state.state == "queued"


def test_kubernetes_reconcile_names_a_damaged_file(cluster: Cluster) -> None:
    folder = cluster.submitted([1])
    (folder / "control.json").write_text('{"parts": [')
    report = looking.states(cluster.shared, ASKED, io.BytesIO()).runs["job-a"]
    assert report.damaged is not None
    assert "control.json: damaged" in report.damaged[1]
