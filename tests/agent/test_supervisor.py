"""A supervisor in a process of its own: signals, and damaged files of its run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import state_files
from fairway_agent.spec import Output, Retry, RunPlan, TaskSpec
from fairway_boot import files

if TYPE_CHECKING:
    from pathlib import Path

SLEEPS = "echo up >$FAIRWAY_SHARED_DIR/up; exec sleep 600\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run of two tasks."""
    folder = tmp_path / "job-aaaaaa"
    for name in ("0", "1"):
        (folder / "tasks" / name).mkdir(parents=True)
        (folder / "tasks" / name / "state.json").write_text('{"state": "failed", "attempt": 0}')
    plan = RunPlan(folder.name, str(tmp_path), tasks=2, sample_every=None)
    (folder / "plan.json").write_text(plan.text())
    (folder / "job.json").write_text("{}")
    (folder / "tasks.jsonl").write_text(
        "".join(TaskSpec(i, script="true\n").line() for i in (0, 1))
    )
    (folder / "state.json").write_text('{"state": "failed", "tasks": {"failed": 2}}')
    (folder / "retry.json").write_text(json.dumps(Retry((0, 1), submission=1).to_json()))
    return folder


def supervised(run: Path, *words: str) -> tuple[str, int, str]:
    """What the supervisor says of having begun, its exit code, and what it says besides."""
    lock = files.try_lock(run / "lock")
    assert lock is not None
    started, ready = os.pipe()
    program = [sys.executable, "-m", "fairway_agent.supervisor", str(run)]
    done = subprocess.run(
        [*program, str(lock), str(ready), *words],
        input="{}",
        pass_fds=(lock, ready),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    os.close(ready)
    os.close(lock)
    with os.fdopen(started) as said:
        return said.read(), done.returncode, done.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    ("number", "state", "code"),
    [("TERM", "lost", 143), pytest.param("USR1", "cancelled", 0, id="a person cancels the run")],
)
def test_a_task_that_saves_and_ends_with_0_because_its_machine_stops_is_lost(
    run: Path, number: str, state: str, code: int
) -> None:
    """The one after it has not begun; a retry of the run begins both."""
    script = f"trap 'exit 0' TERM; kill -s {number} $PPID; sleep 600 & wait\n"
    lines = [TaskSpec(i, script=script).line() for i in (0, 1)]
    (run / "tasks.jsonl").write_text("".join(lines))
    plan = RunPlan(run.name, str(run.parent), tasks=2, max_parallel=1, sample_every=None)
    (run / "plan.json").write_text(plan.text())
    said, done, error = supervised(run)
    assert (said, done, error) == ("ready", 0, "")
    known, task = state_files.read_run(run), state_files.read_task(run / "tasks" / "0")
    assert known is not None
    assert task is not None
    assert (known.state, known.tasks) == (state, {state: 2})
    assert (task.state, task.exit_code) == (state, code)
    assert known.reason == task.reason
    assert (known.reason is not None) is (state == "lost")


@pytest.mark.parametrize(
    ("required", "state", "code", "empty"),
    [(False, "succeeded", 0, ("model", "plots")), (True, "failed", 74, None)],
)
def test_an_output_without_a_file_is_said_and_fails_its_task_if_it_is_required(
    run: Path, required: bool, state: str, code: int, empty: tuple[str, ...] | None
) -> None:
    outputs = {"model": Output("model/**", "success", required=required)}
    outputs |= {"plots": Output("plots/**", "always"), "core": Output("core/**", "failure")}
    outputs["log"] = Output("log/**", "success", required=True)
    spec = TaskSpec(0, script="touch $FAIRWAY_OUTPUT_LOG/a\n", outputs=outputs)
    (run / "tasks.jsonl").write_text(spec.line())
    plan = RunPlan(run.name, str(run.parent), retries=1, sample_every=None)
    (run / "plan.json").write_text(plan.text())
    assert supervised(run) == ("ready", 0, "")
    task = state_files.read_task(run / "tasks" / "0")
    assert (task.state, task.exit_code, task.empty_outputs) == (state, code, empty)
    assert (task.attempts, task.ends) == ((2, {"error": 2}) if required else (1, None))
    assert (task.reason is not None) is required
    log = (run / "tasks" / "0" / "log.txt").read_text()
    assert log.count("the output `model` is empty") == (3 if required else 0)


@pytest.mark.parametrize("file", ["tasks/1/state.json", "tasks.jsonl", "retry.json", "plan.json"])
def test_supervisor_retry_of_a_damaged_run_begins_nothing(run: Path, file: str) -> None:
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
    """The tasks are read when they are wanted: the last is met when the first runs, and fails when
    the first has said that it runs."""
    first = TaskSpec(0, script=SLEEPS).line()
    second = TaskSpec(1, script="read -r _ <$FAIRWAY_SHARED_DIR/up\n").line()
    lines = [first, second, TaskSpec(2).line(), '{"index": 3, "nod\n']
    (run / "tasks.jsonl").write_text("".join(lines))
    plan = RunPlan(run.name, str(run.parent), tasks=4, sample_every=None)
    (run / "plan.json").write_text(plan.text())
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
