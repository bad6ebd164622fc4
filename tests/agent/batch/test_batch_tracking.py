"""What tasks of a pool tell each other, and how a limit of the run ends them; clocks are the
test's own."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import limits, state_files
from fairway_agent.batch import attempt, tracking
from fairway_agent.batch import task as batch_task
from fairway_agent.batch.ending import FILE
from fairway_agent.batch.folders import Folders
from fairway_agent.batch.task import BatchTask
from fairway_agent.limits import Over
from fairway_agent.plan import CANCEL, Budget, IdleGpu, RunPlan
from fairway_agent.shared import watch
from fairway_agent.task_spec import TaskSpec
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from pathlib import Path

HOUR = RunPlan("job-a", "/x", tasks=2, max_duration=3600.0)
# 200 dollars at 12.50 an hour are 57,600 node-seconds.
COST = RunPlan("job-a", "/x", tasks=2, max_cost=Budget(200.0, "USD", 12.5))
LOST = RunPlan("job-a", "/x", retry_limits={"node": 1, "preemption": 0})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    now = SimpleNamespace(now=1e9)
    for module in (watch, tracking, batch_task):
        told = SimpleNamespace(time=lambda: now.now, monotonic=lambda: now.now)
        monkeypatch.setattr(module, "time", told)
    return now


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A node that shares `shared` with the others, and the run's record there."""
    for name, value in (
        ("AZ_BATCH_JOB_PREP_WORKING_DIR", str(tmp_path / "prepared")),
        ("AZ_BATCH_TASK_WORKING_DIR", str(tmp_path / "work")),
        ("AZ_BATCH_JOB_ID", "job-a"),
        ("AZ_BATCH_NODE_ID", "n1"),
        ("FAIRWAY_TASK", "0"),
    ):
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    record = tmp_path / "prepared" / "record"
    record.mkdir(parents=True)
    (record / "target.json").write_text(json.dumps({"nodes": {"min": 0, "max": 8}}))
    (record / "tasks.jsonl").write_text("".join(TaskSpec(n, nodes=2).line() for n in range(2)))
    found = Folders()
    found.__dict__["shared"] = tmp_path / "shared"
    return found


def task(folders: Folders, plan: RunPlan, number: int = 0, submission: int = 0) -> BatchTask:
    mine = BatchTask(plan, TaskSpec(number, nodes=2), folders.shared, folders.base)
    mine.folders, mine.submission = folders, submission
    mine.resume_count()
    return mine


def running(mine: BatchTask, started: float) -> None:
    mine.started = started
    mine.record(mine.status("running"))


def test_the_time_counts_from_the_first_task(folders: Folders, clock: Any) -> None:
    first, second = task(folders, HOUR), task(folders, HOUR, 1)
    assert first.refusal_now() is None
    clock.now += 3000
    assert second.refusal_now() is None
    clock.now = 1e9 + 3599
    assert not second.watch.is_over()
    clock.now = 1e9 + 3600
    assert second.watch.is_over()
    over = Over("max_duration", "it was over its max_duration of 1h")
    assert first.watch.over == over
    late = task(folders, HOUR).refusal_now()
    assert late is not None
    assert (late.state, late.exit_code, late.stopped) == ("cancelled", 130, True)
    assert late.reason == f"the run ends: {over.reason}"
    # Batch begins it again: it ends as it did.
    assert task(folders, HOUR).ended_before() == late
    # Another time that the run runs has its own hour.
    assert task(folders, HOUR, submission=1).ended_before() is None
    assert task(folders, HOUR, submission=1).refusal_now() is None


def test_the_cost_is_that_of_all_tasks(folders: Folders, clock: Any) -> None:
    """Task 1 has held 2 nodes for 20,000 s, and holds them; that is 40,000 of 57,600."""
    mine, other = task(folders, COST), task(folders, COST, 1)
    running(other, 1e9 - 20_000)
    other.track.keep(clock.now)
    assert mine.refusal_now() is None
    assert mine.watch.due == 1e9 + 2200  # with all 8 nodes of the pool
    clock.now = 1e9 + 2200
    # It said nothing more since then: its node was lost, and it waits for another.
    assert not mine.watch.is_over()
    clock.now += 5
    other.track.due = 0.0
    other.track.keep(clock.now)
    mine.watch.due = clock.now
    assert not mine.watch.is_over()
    found = mine.watch.held(clock.now)
    assert (found.seconds, found.nodes) == (2 * 22_205.0, 2)
    clock.now += 6_595
    assert mine.watch.held(clock.now).nodes == 0  # silent for more than a minute
    other.track.due = 0.0
    other.track.keep(clock.now)
    assert mine.watch.held(clock.now).seconds == 57_600
    mine.watch.due = clock.now
    assert mine.watch.is_over()
    assert mine.watch.over == Over("max_cost", "it was over its max_cost of 200 USD")


def test_what_an_attempt_held_whose_node_was_lost_counts(folders: Folders, clock: Any) -> None:
    mine = task(folders, COST)
    mine.held = 100.0
    running(mine, 1e9)
    clock.now += 60
    mine.track.keep(clock.now)
    clock.now += 3000  # until it has another node
    again = task(folders, COST)
    assert (again.held, dict(again.ends)) == (160.0, {"node": 1})


@pytest.mark.parametrize(
    ("stopped", "times", "reason"),
    [
        (False, 1, None),
        (False, 2, "its node was lost; `retry: {node: 1}` is used up"),
        (True, 1, "its node was taken away; `retry: {preemption: 0}` is used up"),
    ],
)
def test_a_node_may_be_lost_so_often(
    folders: Folders, clock: Any, stopped: bool, times: int, reason: str | None
) -> None:
    for _ in range(times):
        mine = task(folders, LOST)
        running(mine, 1e9)
        if stopped:
            mine.process = SimpleNamespace(poll=lambda: 0)  # type: ignore[assignment]
            mine.stop = lambda **_: None  # type: ignore[method-assign]
            mine.give_notice("Preempt")
    found = task(folders, LOST).refusal_now()
    assert (found.reason if found else None) == reason
    if found is not None:
        assert (found.exit_code, task(folders, LOST).ended_before()) == (5, found)


def test_an_eviction_that_is_not_carried_out_counts_as_nothing(
    folders: Folders, clock: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """It was announced, the job has ended for it, and the node is still there."""
    mine = task(folders, LOST)
    mine.held = 25.0
    running(mine, 1e9)
    mine.process = SimpleNamespace(poll=lambda: 0)  # type: ignore[assignment]
    mine.stop = lambda **_: None  # type: ignore[method-assign]
    mine.give_notice("Preempt")
    slept: list[float] = []
    monkeypatch.setattr(attempt, "time", SimpleNamespace(sleep=slept.append))
    attempt._wait_to_go(mine)
    assert slept == [600.0]
    assert "was not taken away" in capfd.readouterr().out
    again = task(folders, LOST)
    assert (again.refusal_now(), dict(again.ends), again.held) == (None, {}, 25.0)
    # One that is carried out counts as ever.
    running(again, 1e9)
    again.process, again.stop = mine.process, mine.stop  # type: ignore[method-assign]
    again.give_notice("Preempt")
    assert dict(task(folders, LOST).ends) == {"preemption": 1}


def test_a_task_that_saves_and_ends_with_0_for_its_node_has_not_ended(
    folders: Folders, clock: Any
) -> None:
    """Whether Azure said it before the task's program began, or after."""
    mine = task(folders, LOST)
    running(mine, 1e9)
    mine.give_notice("Preempt")
    mine._tell = lambda _: None  # type: ignore[method-assign]
    mine.process = SimpleNamespace(poll=lambda: None)  # type: ignore[assignment]
    mine.running_file.touch()
    mine.keep_deadline()
    found = mine._end(0)
    assert (found.state, found.exit_code, found.stopped) == ("running", 143, True)
    assert dict(task(folders, LOST).ends) == {"preemption": 1}


def test_a_retry_of_the_run_counts_anew(folders: Folders, clock: Any) -> None:
    mine = task(folders, LOST)
    running(mine, 1e9)
    assert dict(task(folders, LOST, submission=1).ends) == {}


def test_a_failure_is_no_end_for_good(folders: Folders, clock: Any) -> None:
    mine = task(folders, LOST)
    mine.note_end()
    mine.final("failed", 3, None)
    again = task(folders, LOST)
    assert (again.ended_before(), dict(again.ends)) == (None, {"error": 1})


def test_a_task_that_was_ended_for_idle_gpus_is_not_begun_again(
    folders: Folders, clock: Any
) -> None:
    plan = RunPlan("job-a", "/x", idle_gpu=IdleGpu(5.0, 60.0, CANCEL))
    mine = task(folders, plan)
    mine.timed_out, mine.limit = True, "its GPUs were below 5 % for 1m"
    end = mine.final("failed", 124, mine.why(), stopped=True)
    assert (end.timed_out, end.reason) == (True, mine.limit)
    assert task(folders, plan).ended_before() == end


def test_a_run_without_limits_leaves_no_word(folders: Folders, clock: Any) -> None:
    mine = task(folders, RunPlan("job-a", "/x"))
    assert (mine.ended_before(), mine.refusal_now()) == (None, None)
    running(mine, 1e9)
    mine.final("failed", 3, None)
    mine.track.keep(clock.now)
    assert not mine.watch.is_over()
    assert not folders.shared.exists()


def test_what_it_says_of_its_end(folders: Folders, clock: Any, tmp_path: Path) -> None:
    status = TaskState("failed", exit_code=124, ended=1e9)
    tracking.write_ending(folders, status, Over("max_cost", "why"))
    facts = json.loads((tmp_path / "work" / "logs" / FILE).read_text())
    assert facts == {
        "job": "job-a",
        "task": "0",
        "node": "n1",
        "limit": "max_cost",
        "why": "why",
        "state": {"state": "failed", "exit_code": 124, "ended": 1e9},
    }


def test_signs_of_life_of_others_are_read_with_care(tmp_path: Path) -> None:
    """A task that nobody has seen has held nothing since."""
    (tmp_path / "tasks" / "0").mkdir(parents=True)
    state_files.write(tmp_path / "tasks" / "0", TaskState("running", started=100.0, held=5.0))
    for text in ("", "x", "1" * 400):
        (tmp_path / "tasks" / "0" / "alive").write_text(text)
        found = limits.held(tmp_path, {"0": 1}, 1000.0, tracking._seen)
        assert found.seconds in (5.0, 905.0)
