"""States of runs, once the API server was asked."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from api_server import Cluster, Server
from clocks import Clock

from fairway_agent import control, reconcile, state_files
from fairway_agent.kubernetes import controller
from fairway_agent.kubernetes import runs as looking
from fairway_agent.kubernetes.api import DOWN
from fairway_agent.kubernetes.objects import Objects, Scaling, moment
from fairway_agent.kubernetes.task_state import PATIENCE
from fairway_agent.shared.reports import RunRequest, StatesRequest
from fairway_agent.spec import Retry
from fairway_agent.state_files import RunState
from fairway_boot import files
from fairway_boot.files import NO_ANSWER, Fault

JOBS = ["job-a-0-0", "job-a-0-controller"]
FAILED = {"first": "failed"}
ASKED = StatesRequest({"job-a": RunRequest()})


def test_a_run_lasts_from_the_start_of_its_first_task_to_the_last_end(cluster: Cluster) -> None:
    folder = cluster.submitted([1, 1])
    cluster.wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=4.0)
    cluster.wrote(folder, "1", "failed", exit_code=3, started=2.0, ended=3.0)
    found = cluster.state(folder)
    assert (found.state, found.started, found.ended) == ("failed", 1.0, 4.0)


@pytest.mark.parametrize("last", [False, True])
def test_jobs_that_were_made_after_the_list_are_not_lost(cluster: Cluster, last: bool) -> None:
    """Somebody looks while somebody else, or the controller, submits."""
    folder = cluster.submitted([1], last=last)
    if last:
        cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
    before = Objects()
    assert looking.reconcile_all(cluster.server, [folder], before) == {}
    found = state_files.read_run(folder)
    assert found.tasks == ({"succeeded": 1, "queued": 1} if last else {"queued": 1})


def test_a_task_that_began_after_the_list_runs(cluster: Cluster) -> None:
    """Its pod was not there yet."""
    folder = cluster.submitted([1])
    before = looking.look(cluster.server, [folder.name])
    pod = cluster.server.pod("job-a-0-0", 0, "Pending")
    cluster.wrote(folder, "0", "running", attempt=0, started=1.0, job=pod)
    assert looking.reconcile_all(cluster.server, [folder], before) == {}
    assert state_files.read_task(folder / "tasks" / "0").state == "running"


def test_the_controller_notes_that_nodes_are_started_for_a_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first pod may not ask the API server, and waits for as long as they come."""
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
    """Pods that never get their container."""

    WHY = "its image own:1 cannot be pulled: manifest unknown"

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        return Clock.of(monkeypatch, reconcile, controller)

    @pytest.fixture
    def act(self, cluster: Cluster) -> Callable[[Path], RunState]:
        """One step of the run's controller, which remembers what it saw."""
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
    def test_they_end_the_run_after_a_while_and_who_looks_ends_nothing(
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

    def test_one_that_is_pulled_after_all_is_as_any_other(
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

    def test_where_others_have_begun_one_fails_alone(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState]
    ) -> None:
        folder = cluster.submitted([1, 1])
        self.hold(cluster.server, 1)
        cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
        act(folder)
        clock.now += PATIENCE
        assert act(folder).tasks == {"succeeded": 1, "failed": 1}
        assert (cluster.server.of("pods"), [*cluster.server.of("jobs")]) == ({}, JOBS)

    def test_the_first_of_several_hears_that_others_do_not_come_until_they_have(
        self, cluster: Cluster, clock: Clock, act: Callable[[Path], RunState]
    ) -> None:
        """It has the last word, as it may have begun before: see `gang`."""
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

    def test_what_a_controller_that_is_stuck_was_to_start_has_failed(
        self, cluster: Cluster, clock: Clock
    ) -> None:
        folder = cluster.submitted([2, 2], max_parallel=1)
        clock.now = moment("2023-11-14T19:50:00Z")
        self.hold(cluster.server, -1, job="job-a-0-controller")
        assert cluster.state(folder).reason == f"waiting for its turn: {self.WHY}"
        clock.now += PATIENCE
        assert cluster.state(folder).tasks == {"failed": 2}
        found = state_files.read_task(folder / "tasks" / "0")
        assert found.reason == f"nothing could start it: {self.WHY}"


def test_a_controller_that_failed_for_good_is_the_reason(cluster: Cluster) -> None:
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


def test_what_the_controller_is_refused_is_why_a_task_waits(cluster: Cluster) -> None:
    folder = cluster.submitted([2, 2], max_parallel=1)
    control.note_blocked(folder, 0, "controller", "exceeded quota: team")
    assert cluster.state(folder).reason == "waiting for its turn: exceeded quota: team"


def test_what_nothing_is_left_to_start_is_lost(cluster: Cluster) -> None:
    folder = cluster.submitted([1], last=True)
    cluster.wrote(folder, "0", "succeeded", exit_code=0, ended=1.0)
    found = cluster.state(folder)
    assert (found.state, found.reason) == ("running", None)
    cluster.server.of("jobs").pop("job-a-0-controller")
    assert cluster.state(folder).tasks == {"succeeded": 1, "lost": 1}
    deleted = cluster.submitted([1], "job-b")
    cluster.server.objects.clear()
    assert cluster.state(deleted).state == "lost"


def test_a_run_whose_predecessor_was_to_fail_begins_then(cluster: Cluster) -> None:
    first = cluster.submitted([1], run="first")
    folder = cluster.submitted([1], after=["first"], conditions=FAILED)
    assert cluster.due(folder) == []
    state_files.write(first, RunState("failed", ended=1.0))
    assert cluster.due(folder) == [0]
    state_files.write(first, RunState("succeeded", ended=1.0))  # somebody has retried it
    assert cluster.due(folder) == [0]
    assert cluster.state(folder).state == "queued"


@pytest.mark.parametrize(("state", "conditions"), [("failed", {}), ("succeeded", FAILED)])
def test_a_run_and_its_retry_whose_predecessor_has_ended_otherwise_say_so(
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


def test_a_server_that_is_away_leaves_what_was_known(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submitted([1])

    def silent(*_: object, **__: object) -> None:
        raise Fault(NO_ANSWER, "the API server of Kubernetes does not answer: HTTP 503", DOWN)

    monkeypatch.setattr(cluster.server, "list", silent)
    found = looking.states(cluster.shared, ASKED, io.BytesIO())
    assert found.silent == "the API server of Kubernetes does not answer: HTTP 503"
    report = found.runs["job-a"]
    assert report.state.state == "queued"


def test_a_damaged_file_is_named(cluster: Cluster) -> None:
    folder = cluster.submitted([1])
    (folder / "control.json").write_text('{"parts": [')
    report = looking.states(cluster.shared, ASKED, io.BytesIO()).runs["job-a"]
    assert "control.json: damaged" in (report.damaged or "")
