"""Messages between tasks of a pool, limits, and the task that reports the run's end; clocks are
fake."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock
from receivers import Receiver
from run_folders import bring

from fairway_agent import limits, state_files
from fairway_agent.batch import attempt, nodes, notifications
from fairway_agent.batch.attempt import Batch
from fairway_agent.batch.folders import Folders
from fairway_agent.batch.nodes import BatchNodes, ScheduledEvents
from fairway_agent.batch.notifications import FILE, ExitReport
from fairway_agent.limits import NodeUsage
from fairway_agent.records import InvalidRecord
from fairway_agent.spec import CANCEL, Budget, IdleGpu, RunPlan, TaskSpec
from fairway_agent.spec import Receiver as Hears
from fairway_agent.state_files import ExceededLimit, TaskState
from fairway_agent.task import task as task_module
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.scheduled import prepare
from fairway_agent.task.task import Task
from fairway_boot.http import Failure
from fairway_boot.imds import Event

HOUR = RunPlan("job-a", "/x", tasks=2, max_duration=3600.0)
# 200 dollars at 12.50 an hour are 57,600 node-seconds.
COST = RunPlan("job-a", "/x", tasks=2, max_cost=Budget(200.0, "USD", 12.5))
LOST = RunPlan("job-a", "/x", retry_limits={"node": 1, "preemption": 0})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, limits, notifications, task_module, attempt)


@pytest.fixture
def folders(node: Path) -> Folders:
    """Returns the folders of a node that shares one with the others."""
    specs = [TaskSpec(number, nodes=2) for number in range(2)]
    bring(node / "prep/record", HOUR, specs, {"nodes": {"min": 0, "max": 8}})
    found = Folders()
    found.__dict__["shared"] = node / "mounted"
    return found


class Mine:
    """A task of a pool, as the process sees it that Batch has just started for it."""

    def __init__(self, folders: Folders, plan: RunPlan, number: int = 0) -> None:
        self.nodes = BatchNodes(folders, plan)
        self.nodes.track.name = str(number)
        spec = TaskSpec(number, nodes=2)
        self.task = Task(plan, spec, folders.shared, folders.base, nodes=self.nodes)
        self.task.submission = folders.submission
        self.watch = notifications.watch_of(folders, plan, folders.submission)
        self.batch = Batch(None, self.watch, nodes=self.nodes, events=None, first=0)
        self.batch.resume(self.task)

    def refusal(self) -> TaskState | None:
        """Returns the task's final state if it must not begin, else None."""
        self.task.failures_by_cause.clear()  # counted again
        prepare(Attempts(self.task, self.batch), self.batch)
        return self.nodes.recorded

    def ended_before(self) -> TaskState | None:
        return attempt.final_state(self.nodes)

    def running(self, started: float) -> None:
        self.task.started = started
        self.task.record(self.task.status("running"))

    def has_notice(self) -> None:
        self.task.process = SimpleNamespace(poll=lambda: None)
        self.nodes.give_notice(self.task, "Preempt")


def test_batch_max_duration_counts_from_the_first_task(
    folders: Folders, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Mine(folders, HOUR)
    assert first.refusal() is None
    clock.now += 3000
    second = Mine(folders, HOUR, 1)
    assert second.refusal() is None
    clock.now = 1e9 + 3600
    assert second.watch.is_over()
    late = Mine(folders, HOUR).refusal()
    assert (late.state, late.exit_code, late.stopped) == ("cancelled", 130, True)
    assert late.reason == "the run ends: it was over its max_duration of 1h"
    # If Batch restarts the task, it ends the same way.
    assert Mine(folders, HOUR).ended_before() == late
    # A later submission has its own hour.
    monkeypatch.setenv("FAIRWAY_SUBMISSION", "1")
    assert Mine(folders, HOUR).ended_before() is None
    assert Mine(folders, HOUR).refusal() is None


def test_batch_max_cost_counts_the_nodes_of_all_tasks(folders: Folders, clock: Clock) -> None:
    """Task 1 has held 2 nodes for 20,000 s and still holds them: 40,000 of 57,600 node-seconds."""
    mine, other = Mine(folders, COST), Mine(folders, COST, 1)
    other.running(1e9 - 20_000)
    other.nodes.track.keep(clock.now)
    assert other.nodes.track.due == 1e9 + 10
    assert mine.refusal() is None
    assert mine.watch.due == 1e9 + 2200  # with all 8 nodes of the pool
    for seconds, held in ((60, 2), (61, 0)):
        # It has not reported since: its node was lost, and it waits for another.
        assert mine.watch.usage(1e9 + seconds) == NodeUsage(40_000.0, held)
    clock.now += 8800
    mine.watch.due = clock.now
    assert not mine.watch.is_over()
    other.nodes.track.due = 0.0
    other.nodes.track.keep(clock.now)
    mine.watch.due = clock.now
    assert mine.watch.is_over()
    assert mine.watch.over == ExceededLimit("max_cost", "it was over its max_cost of 200 USD")


def test_batch_tracking_counts_time_held_by_an_attempt_on_a_lost_node(
    folders: Folders, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss counts too, but not in a retry of the run."""
    mine = Mine(folders, COST)
    mine.task.held = 100.0
    mine.running(1e9)
    clock.now += 60
    mine.nodes.track.keep(clock.now)
    clock.now += 3000  # until it has another node
    again = Mine(folders, COST).task
    assert (again.held, dict(again.failures_by_cause)) == (160.0, {"node": 1})
    monkeypatch.setenv("FAIRWAY_SUBMISSION", "1")
    assert dict(Mine(folders, COST).task.failures_by_cause) == {}


def test_batch_tracking_fails_a_task_when_its_node_retries_are_used_up(
    folders: Folders, clock: Clock
) -> None:
    for reason in (None, "a node of it was lost; `retry: {node: 1}` is used up"):
        Mine(folders, LOST).running(1e9)
        found = Mine(folders, LOST).refusal()
        assert (found.reason if found else None) == reason
    assert (found.exit_code, Mine(folders, LOST).ended_before()) == (5, found)


def test_batch_tracking_ignores_an_eviction_that_was_not_carried_out(
    folders: Folders, clock: Clock, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """The eviction was announced and the job has ended for it, but the node is still there."""
    mine = Mine(folders, LOST)
    mine.task.held = 25.0
    mine.running(1e9)
    mine.has_notice()
    attempt._wait_to_go(mine.task)
    assert clock.now == 1e9 + 600
    clock.now = 1e9
    assert "was not taken away" in capfd.readouterr().out
    again = Mine(folders, LOST)
    found = (again.refusal(), dict(again.task.failures_by_cause), again.task.held)
    assert found == (None, {}, 25.0)
    # An eviction that is carried out counts as usual.
    again.running(1e9)
    again.has_notice()
    late = Mine(folders, LOST)
    assert late.refusal().reason.startswith("its nodes were taken away; `retry: {preemption: 0}`")
    assert dict(late.task.failures_by_cause) == {"preemption": 1}


def test_batch_tracking_task_that_ends_with_0_on_eviction_is_not_final(
    folders: Folders, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure may give notice before the task's program begins, or after."""
    mine = Mine(folders, LOST)
    mine.running(1e9)
    mine.nodes.give_notice(mine.task, "Preempt")
    monkeypatch.setattr(BatchNodes, "signal", lambda *_: None)
    mine.task.process = SimpleNamespace(poll=lambda: None)
    mine.batch._running.touch()
    mine.batch.look(mine.task)
    attempts = Attempts(mine.task, mine.batch, state="running")
    attempts.decide(0, is_last=True)
    found = mine.nodes.recorded
    assert (found.state, found.exit_code, found.stopped) == ("running", 143, True)
    assert (attempts.state, attempts.exit_code) == ("stopped", 143)
    assert dict(Mine(folders, LOST).task.failures_by_cause) == {"preemption": 1}


def test_batch_tracking_failure_is_retried_except_for_idle_gpus(
    folders: Folders, clock: Clock
) -> None:
    """Batch restarts the task as often as the job has `retries`."""
    mine = Mine(folders, replace(LOST, retries=3))
    attempts = Attempts(mine.task, mine.batch, state="running")
    attempts.decide(3, is_last=True)
    assert (attempts.state, attempts.exit_code) == ("failed", 3)
    again = Mine(folders, LOST)
    assert (again.ended_before(), dict(again.task.failures_by_cause)) == (None, {"error": 1})
    plan = RunPlan("job-a", "/x", idle_gpu=IdleGpu(5.0, 60.0, CANCEL))
    mine = Mine(folders, plan)
    mine.task.timed_out, mine.task.limit = True, "its GPUs were below 5 % for 1m"
    Attempts(mine.task, mine.batch, state="running").decide(124, is_last=True)
    end = mine.nodes.recorded
    assert (end.timed_out, end.reason) == (True, mine.task.limit)
    assert Mine(folders, plan).ended_before() == end


def test_batch_tracking_with_damaged_or_without_limits_ends_no_task(
    folders: Folders, clock: Clock
) -> None:
    mine = Mine(folders, RunPlan("job-a", "/x"))
    assert (mine.ended_before(), mine.refusal()) == (None, None)
    mine.running(1e9)
    mine.task.record(replace(mine.task.status("failed"), exit_code=3))
    mine.nodes.track.keep(clock.now)
    assert not mine.watch.is_over()
    assert not folders.shared.exists()
    # Like a file that cannot be written: to the task, the run has no limit.
    mine = Mine(folders, HOUR)
    (folders.shared / "control.json").write_text("{")
    assert (mine.watch.is_over(), mine.watch.over) == (False, None)


def test_batch_tracking_writes_an_ending_only_at_the_end_or_for_idle_gpus(
    folders: Folders, clock: Clock
) -> None:
    file = folders.work / "logs" / FILE
    mine = Mine(folders, RunPlan("job-a", "/x"))
    mine.running(1e9)
    assert not file.exists()
    mine.nodes.over = ExceededLimit("max_cost", "why")
    mine.task.record(TaskState("failed", exit_code=124, ended=1e9))
    state = {"version": 1, "state": "failed", "ended": 1e9, "exit_code": 124, "stopped": True}
    names = {"job": "job-a", "task": "0", "node": "n1"}
    over = {"limit": "max_cost", "why": "why"}
    assert json.loads(file.read_text()) == {**names, **over, "state": state}
    file.unlink()
    mine.task.idle = SimpleNamespace(reason=None)
    mine.running(1e9)
    assert json.loads(file.read_text())["state"]["state"] == "running"


def test_batch_tracking_skips_damaged_signs_of_life_and_endings(tmp_path: Path) -> None:
    """A task without a sign of life has held no node since."""
    (tmp_path / "tasks" / "0").mkdir(parents=True)
    state_files.write(tmp_path / "tasks" / "0", TaskState("running", started=100.0, held=5.0))
    for text in ("", "x", "1" * 400):
        (tmp_path / "tasks" / "0" / "alive").write_text(text)
        found = limits.node_seconds(tmp_path, {"0": 1}, 1000.0, notifications._seen)
        assert found.seconds in (5.0, 905.0)
    another = {**report("1").to_json(), "job": "job-a:job-2"}
    texts = [json.dumps(report("0").to_json()), json.dumps(another), "{", "[" * 100_000, "null"]
    for number, text in enumerate(texts):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / FILE).write_text(text)
    assert notifications.exit_reports_in(tmp_path, "job-a") == [report("0")]
    assert notifications.exit_reports_in(tmp_path / "nothing", "job-a") == []
    mine = report("3", "failed", limit="max_cost", why="it was over its max_cost of 200 USD")
    assert ExitReport.from_json(json.loads(json.dumps(mine.to_json()))) == mine
    for facts in (None, [], {}, {**mine.to_json(), "state": None}, {**mine.to_json(), "job": 3}):
        with pytest.raises(InvalidRecord):
            ExitReport.from_json(facts)


def report(
    task: str, state: str = "succeeded", ended: float = 1e9, node: str = "n1", **facts: Any
) -> ExitReport:
    status = TaskState(state, started=ended - 10, ended=ended, exit_code=int(state == "failed"))
    return ExitReport("job-a", task, node, status, **facts)


@pytest.mark.parametrize(
    ("reports", "tasks", "done", "state", "counts"),
    [
        ([report("0")], 1, {}, "succeeded", {"succeeded": 1}),
        ([report("0"), report("1", "failed")], 2, {}, "failed", {"succeeded": 1, "failed": 1}),
        # The job was ended before the others had begun.
        ([report("0")], 3, {}, "cancelled", {"succeeded": 1, "cancelled": 2}),
        ([report("1")], 2, {"succeeded": 1}, "succeeded", {"succeeded": 2}),
        ([report("1")], 2, {"failed": 1}, "failed", {"failed": 1, "succeeded": 1}),
        # Its program was killed, and its last report was that it runs.
        (
            [report("0", "running"), report("1")],
            2,
            {},
            "cancelled",
            {"succeeded": 1, "cancelled": 1},
        ),
        ([report("0", "cancelled", limit="max_cost", why="w")], 1, {}, "failed", {"cancelled": 1}),
    ],
)
def test_batch_run_state_follows_from_the_endings_of_its_tasks(
    reports: list[ExitReport], tasks: int, done: dict[str, int], state: str, counts: dict[str, int]
) -> None:
    found = notifications.state_of(reports, tasks, done)
    assert (found.state, dict(found.tasks)) == (state, counts)
    assert (found.started, found.ended) == (1e9 - 10, 1e9)
    assert (found.limit, found.reason) == (reports[0].limit, reports[0].why)


@pytest.fixture
def brought(folders: Folders, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Path:
    """Returns the folder of exit reports of the node `n1`, on which the job's release task runs."""
    hears = Hears("secret:HOOK", ("failed", "succeeded"), "auto", "HOOK")
    plan = RunPlan("job-a", "/x", tasks=2, secrets=("HOOK",), notify=hears)
    (folders.record / "plan.json").write_text(plan.text())
    monkeypatch.setenv("HOOK", "")  # and gone again after the test
    monkeypatch.setattr(Folders, "secret_values", lambda _: {"HOOK": receiver.url})
    monkeypatch.setattr(notifications, "PAID_PAUSES", (0.0, 0.0))
    return folders.work / notifications.BROUGHT


def test_batch_notification_is_sent_only_by_the_node_of_the_last_task(
    brought: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The address is in no file, a failed delivery is retried, and a job that never began sends
    nothing."""
    assert notifications.send() == 0
    for each in (report("0", node="n2"), report("1", "failed", 1e9 + 5)):
        place = brought / "job-a" / "exit-reports" / "0" / each.task
        place.mkdir(parents=True)
        (place / FILE).write_text(json.dumps(each.to_json()))
    monkeypatch.setenv("AZ_BATCH_NODE_ID", "n2")
    assert notifications.send() == 0
    assert receiver.seen == 0
    monkeypatch.setenv("AZ_BATCH_NODE_ID", "n1")
    receiver.answers += [503, 0]
    assert notifications.send() == 0
    said = receiver.next()
    assert (said["run"], said["state"], said["seconds"]) == ("job-a", "failed", 15.0)
    assert (said["tasks"], receiver.seen) == ({"succeeded": 1, "failed": 1}, 3)
    receiver.answers += [500, 500, 500]
    assert notifications.send() == 0
    why = capfd.readouterr().err
    assert "a notification was not delivered: the receiver answered 500" in why
    assert receiver.url not in why
    monkeypatch.setenv(notifications.DONE, '{"succeeded": 3}')  # in a retry
    assert notifications.send() == 0
    assert receiver.next()["tasks"] == {"succeeded": 4, "failed": 1}


@pytest.mark.parametrize("is_there", [True, False])
def test_batch_node_keeps_polling_a_metadata_service_that_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """The service may be away for a while, and the eviction may come days later. A machine that
    never had one is polled a few times."""
    monkeypatch.setattr(nodes, "_PAUSE", 0.0)
    away, event = Failure(0, "NoAnswer", "away"), Event("e1", "Preempt")
    answers = [[], *[away] * 9, [event]] if is_there else [*[away] * 9, [event]]
    found: list[str] = []
    events = ScheduledEvents(tmp_path / "event", found.append)

    def endings(_: str) -> list[Event]:
        answer = answers.pop(0)
        if isinstance(answer, Failure):
            raise answer
        return answer

    events._metadata = SimpleNamespace(name=lambda: "v_7", endings=endings)
    waits = iter([*[False] * 20, True])
    monkeypatch.setattr(events.stopped, "wait", lambda _: next(waits))
    events.run()
    assert (found, len(answers)) == ((["Preempt"], 0) if is_there else ([], 5))
