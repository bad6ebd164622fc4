"""A supervisor: signals, damaged files of its run, and limits of the run."""

import errno
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock
from programs import finished
from run_folders import bring

from fairway_agent import control, limits, state_files, supervisor
from fairway_agent.limits import NodeUsage
from fairway_agent.resources import ResourceRequest
from fairway_agent.spec import LAST, Budget, Output, Retry, RunPlan, TaskSpec
from fairway_agent.state_files import CANCELLATION, TaskState
from fairway_agent.supervisor import Supervisor
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.task import Nodes, Task
from fairway_boot import files

SLEEPS = "echo up >$FAIRWAY_SHARED_DIR/up; exec sleep 600\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns the folder of a run of two tasks."""
    folder = tmp_path / "job-aaaaaa"
    for name in ("0", "1"):
        (folder / "tasks" / name).mkdir(parents=True)
        (folder / "tasks" / name / "state.json").write_text('{"state": "failed", "attempt": 0}')
    specs = [TaskSpec(index, script="true\n") for index in (0, 1)]
    bring(folder, RunPlan(folder.name, str(tmp_path), tasks=2), specs)
    (folder / "state.json").write_text('{"state": "failed", "tasks": {"failed": 2}}')
    (folder / "retry.json").write_text(json.dumps(Retry((0, 1), submission=1).to_json()))
    return folder


def supervised(run: Path, *words: str, heard: bool = True) -> tuple[str, int, str]:
    """Returns the supervisor's ready message, its exit code and its errors. Unless `heard`, the
    process that started it was killed."""
    lock = files.try_lock(run / "lock")
    assert lock is not None
    started, ready = os.pipe()
    if not heard:
        os.close(started)
        started = os.open(os.devnull, os.O_RDONLY)
    program = [sys.executable, "-m", "fairway_agent.supervisor", str(run)]
    done = finished([*program, str(lock), str(ready), *words], input="{}", pass_fds=(lock, ready))
    os.close(ready)
    os.close(lock)
    with os.fdopen(started) as said:
        return said.read(), done.returncode, done.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    ("number", "state", "code"),
    [("TERM", "lost", 143), pytest.param("USR1", "cancelled", 0, id="a person cancels the run")],
)
def test_supervisor_stopped_by_its_machine_marks_tasks_that_end_with_0_as_lost(
    run: Path, number: str, state: str, code: int
) -> None:
    """The second task has not begun; a retry of the run begins both."""
    script = f"trap 'exit 0' TERM; kill -s {number} $PPID; sleep 600 & wait\n"
    plan = RunPlan(run.name, str(run.parent), tasks=2, max_parallel=1)
    bring(run, plan, [TaskSpec(index, script=script) for index in (0, 1)])
    said, done, error = supervised(run)
    assert (said, done, error) == ("ready", 0, "")
    known, task = state_files.read_run(run), state_files.read_task(run / "tasks" / "0")
    assert (known.state, known.tasks) == (state, {state: 2})
    assert (task.state, task.exit_code) == (state, code)
    assert known.reason == task.reason
    assert (known.reason is not None) is (state == "lost")


def test_supervisor_of_a_run_that_was_cancelled_before_it_began_starts_no_task(run: Path) -> None:
    """The command that cancelled it was killed before it sent a signal."""
    bring(run, RunPlan(run.name, str(run.parent)), [TaskSpec(0, script="touch begun\n")])
    control.cancel(run, 0)
    assert supervised(run) == ("ready", 0, "")
    assert state_files.read_run(run).state == "cancelled"
    assert not (run.parent / "begun").exists()
    (run / "retry.json").write_text(json.dumps(Retry((0,)).to_json()))  # as on this machine
    assert supervised(run, "retry") == ("ready", 0, "")
    assert state_files.read_run(run).state == "succeeded", "the order was not for the retry"
    assert (run.parent / "begun").exists()


def test_supervisor_continues_if_the_command_that_started_it_was_killed(run: Path) -> None:
    assert supervised(run, "retry", heard=False) == ("", 0, "")
    assert state_files.read_run(run).state == "succeeded"


@pytest.mark.parametrize(
    ("required", "state", "code", "empty"),
    [(False, "succeeded", 0, ("model", "plots")), (True, "failed", 74, None)],
)
def test_supervisor_reports_an_empty_output_and_fails_the_task_if_required(
    run: Path, required: bool, state: str, code: int, empty: tuple[str, ...] | None
) -> None:
    outputs = {"model": Output("model/**", "success", required=required)}
    outputs |= {"plots": Output("plots/**", "always"), "core": Output("core/**", "failure")}
    outputs["log"] = Output("log/**", "success", required=True)
    spec = TaskSpec(0, script="touch $FAIRWAY_OUTPUT_LOG/a\n", outputs=outputs)
    bring(run, RunPlan(run.name, str(run.parent), retries=1), [spec])
    assert supervised(run) == ("ready", 0, "")
    task = state_files.read_task(run / "tasks" / "0")
    assert (task.state, task.exit_code, task.empty_outputs) == (state, code, empty)
    assert (task.attempts, task.failures_by_cause) == ((2, {"error": 2}) if required else (1, None))
    assert (task.reason is not None) is required
    log = (run / "tasks" / "0" / "log.txt").read_text()
    assert log.count("the output `model` is empty") == (3 if required else 0)


@pytest.mark.parametrize("file", ["tasks/1/state.json", "tasks.jsonl", "retry.json", "plan.json"])
def test_supervisor_retry_of_a_damaged_run_starts_no_task(run: Path, file: str) -> None:
    (run / file).write_text('{"state": "run')
    before = (run / "state.json").read_text()
    said, code, error = supervised(run, "retry")
    assert (said, code) == ("", 1)
    assert error.startswith(f"{run / file}: damaged: ")
    assert error.endswith("; submit the job again from its file\n")
    assert error.count("\n") == 1
    assert (run / "state.json").read_text() == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two tasks run at once")
def test_supervisor_ends_running_tasks_when_a_later_task_is_damaged(run: Path) -> None:
    """Tasks are read lazily: the damaged one is reached while the first runs."""
    second = TaskSpec(1, script="read -r _ <$FAIRWAY_SHARED_DIR/up\n")
    specs = [TaskSpec(0, script=SLEEPS), second, TaskSpec(2)]
    bring(run, RunPlan(run.name, str(run.parent), tasks=4), specs)
    with (run / "tasks.jsonl").open("a") as tasks:
        tasks.write('{"index": 3, "nod\n')
    (run / "shared").mkdir()
    os.mkfifo(run / "shared" / "up")
    said, code, error = supervised(run)
    assert (said, code, error) == ("ready", 0, "")
    known = state_files.read_run(run)
    assert (known.state, known.tasks) == ("failed", {"succeeded": 1, "cancelled": 3})
    assert known.reason.startswith(f"{run / 'tasks.jsonl'}: damaged: ")
    assert known.reason.endswith("; submit the job again from its file")
    facts: dict[str, Any] = json.loads((run / "tasks/0/state.json").read_text())
    assert facts["state"] == "cancelled"


# 200 dollars at 12.50 an hour are 16 hours of a node: 57,600 s.
BUDGET = Budget(200.0, "USD", 12.5)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Supervisor, Clock]]:
    """Yields a supervisor of a run of at most an hour, and its clock."""
    clock = Clock.of(monkeypatch, supervisor)
    left, right = socket.socketpair()
    with left, right:
        plan = RunPlan("job-a", str(tmp_path), max_duration=3600.0)
        yield Supervisor(tmp_path, plan, SimpleNamespace(pid=1), left, right), clock  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "state"), [(None, "running"), (ResourceRequest(gpus=1), "queued")]
)
def test_run_whose_tasks_need_a_share_of_a_node_starts_as_queued(
    made: tuple[Supervisor, Clock], tmp_path: Path, wanted: ResourceRequest | None, state: str
) -> None:
    run, _ = made
    (tmp_path / "tasks.jsonl").write_text(TaskSpec(0, wanted=wanted).line())
    started, ready = os.pipe()
    run._begin(ready)
    os.close(started)
    assert run.recorded.state == state


def test_run_that_waits_for_its_predecessors_names_them(
    made: tuple[Supervisor, Clock], tmp_path: Path
) -> None:
    run, _ = made
    run.plan = replace(run.plan, after=[str(tmp_path / "first"), str(tmp_path / "other")])
    (tmp_path / "other/lock").mkdir(parents=True)  # it cannot be read
    started, ready = os.pipe()
    run._begin(ready)
    os.close(started)
    assert (run.recorded.state, run.recorded.reason) == ("queued", "it comes after first, other")
    run._await_predecessors()
    run._record("queued")
    assert run.recorded.reason == "not started: first was removed, other was removed"


def test_max_duration_ends_the_run_when_its_time_is_over(made: tuple[Supervisor, Clock]) -> None:
    run, clock = made
    run._keep_limit()
    # It has not begun: time spent waiting for nodes does not count.
    assert run._next_deadline() is None
    run.started = 1e9
    clock.now += 600
    run._keep_limit()
    assert (run._next_deadline(), run.limit) == (1e9 + 3600 - 5, None)
    clock.now += 3000
    run.ending = CANCELLATION
    run._keep_limit()
    assert (run.limit, run.reason) == (None, None)  # a run that is cancelled stays so
    run.ending = ""
    run._keep_limit()
    assert (run.limit, run.reason) == ("max_duration", "it was over its max_duration of 1h")
    assert (run._next_deadline(), run._outcome()) == (None, "failed")


@pytest.mark.parametrize(
    ("code", "cancelled", "told"), [(None, True, 1), (0, False, 0), (3, True, 0)]
)
def test_cancel_of_an_ended_task_sends_no_signal_and_keeps_a_success(
    made: tuple[Supervisor, Clock],
    monkeypatch: pytest.MonkeyPatch,
    code: int | None,
    cancelled: bool,
    told: int,
) -> None:
    """The supervisor has not polled the task yet. A failed task gets no further attempt."""
    run, _ = made
    said: list[object] = []
    monkeypatch.setattr(Nodes, "signal", lambda *words: said.append(words))
    task = _task(run, 0, nodes=1, began=1e9)
    task.process = SimpleNamespace(poll=lambda: code)  # type: ignore[assignment]
    control.cancel(run.folder, 0, "0")
    run.running = [Attempts(task)]
    run._end_cancelled()
    run._end_cancelled()  # a second time, which sends nothing
    assert (task.stopped_for == CANCELLATION, len(said)) == (cancelled, told)


def test_patience_is_reset_after_the_blocked_task_was_cancelled(
    made: tuple[Supervisor, Clock],
) -> None:
    run, _ = made
    assert run.patience.lasts(OSError(errno.ENOSPC, "full"))
    run._begin_due(iter(()))
    assert (run.patience.until, run.patience.hindrance) == (None, None)


def test_max_cost_ends_the_run_when_its_budget_is_spent(made: tuple[Supervisor, Clock]) -> None:
    """4 nodes from the first second and 2 more after an hour: after an hour 4 of 16 node hours are
    spent, and the other 12 are after two more."""
    run, clock = made
    run.plan, run.started = replace(run.plan, max_duration=None, max_cost=BUDGET), 1e9
    run.running = [Attempts(_task(run, 0, nodes=4, began=1e9 - 5))]
    run._keep_limit()
    assert run._next_deadline() == 1e9 + 4 * 3600 - 5
    clock.now += 3600
    run.running.append(Attempts(_task(run, 1, nodes=2, began=clock.monotonic())))
    run._keep_limit()
    assert run._next_deadline() == 1e9 + 3 * 3600 - 5
    clock.now += 7199
    run._keep_limit()
    assert run.limit is None
    clock.now += 1
    run._keep_limit()
    assert (run.limit, run.reason) == ("max_cost", "it was over its max_cost of 200 USD")
    run._record("running")
    facts = json.loads((run.folder / "state.json").read_text())
    assert (facts["limit"], facts["exit_code"]) == ("max_cost", 124)


def test_max_cost_counts_attempts_that_have_ended(
    made: tuple[Supervisor, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = made
    task = _task(run, 0, nodes=2, began=1e9 - 5)
    monkeypatch.setattr(supervisor.processes, "reap", lambda _: None)
    monkeypatch.setattr(Task, "ended", lambda _: 0)
    monkeypatch.setattr(Task, "session", 7, raising=False)
    run.guard = SimpleNamespace(pid=1, forget=lambda _: None)  # type: ignore[assignment]
    run.running, run.counts["running"] = [Attempts(task, state="running")], 1
    clock.now += 3600
    run._look_after_running()
    assert (run.running, run.spent) == ([], 7200.0)


def test_max_cost_counts_time_held_before_a_retry(made: tuple[Supervisor, Clock]) -> None:
    """3 nodes for 1,000 s and the last task for 50 s; nothing for the task that never began."""
    run, _ = made
    run.plan = replace(run.plan, max_cost=BUDGET, retry=Retry((0,)))
    lines = [TaskSpec(0, nodes=3).line(), TaskSpec(1, nodes=5).line()]
    (run.folder / "tasks.jsonl").write_text("".join(lines))
    (run.folder / "finally.jsonl").write_text(TaskSpec(LAST).line())
    for name, seconds in (("0", 1000.0), (LAST, 50.0)):
        folder = run.folder / "tasks" / name
        folder.mkdir(parents=True)
        state_files.write(folder, TaskState("failed", attempt=0, started=1e9, held=seconds))
    run._queue_again()
    assert run.spent == 3050.0


def test_retry_reads_each_task_after_the_previous_one_is_queued(
    made: tuple[Supervisor, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = made
    run.plan = replace(run.plan, retry=Retry((0, 1)))
    (run.folder / "tasks.jsonl").write_text(TaskSpec(0).line() + TaskSpec(1).line())
    done: list[str] = []
    monkeypatch.setattr(Task, "resume_count", lambda task: done.append(f"read {task.name}"))
    monkeypatch.setattr(Task, "record", lambda task, _: done.append(f"queue {task.name}"))
    run._queue_again()
    assert done == ["read 0", "queue 0", "read 1", "queue 1"]


def _task(run: Supervisor, index: int, *, nodes: int, began: float) -> Task:
    spec = TaskSpec(index, nodes=nodes)
    return Task(run.plan, spec, run.folder, run.folder / "tasks" / str(index), began=began)


def test_limits_name_the_first_exceeded_and_sum_node_seconds(tmp_path: Path) -> None:
    plan, held = RunPlan("job-a", "/", max_duration=3600.0, max_cost=BUDGET), NodeUsage(57_600.0)
    assert limits.exceeded_limit(plan, 1e9 + 3600, 1e9, held).limit == "max_duration"
    # One that ended (2 × 100 s), one that runs in its second attempt (10 s and 30 s of 4 nodes),
    # one that waits for its third (20 s), and one that Slurm has ended.
    states = [
        TaskState("succeeded", started=1e9 - 100, ended=1e9, held=100.0),
        TaskState("running", attempt=1, started=1e9 - 30, held=10.0),
        TaskState("queued", attempt=1, started=1e9 - 500, held=20.0),
        TaskState("running", started=1e9 - 60, ended=1e9 - 55, held=5.0, stopped=True),
    ]
    for index, state in enumerate(states):
        (tmp_path / "tasks" / str(index)).mkdir(parents=True)
        state_files.write(tmp_path / "tasks" / str(index), state)
    assert limits.node_seconds(
        tmp_path, dict(zip("01234", (2, 4, 1, 1, 8), strict=True)), 1e9
    ) == NodeUsage(200 + 160 + 20 + 5, 4)
