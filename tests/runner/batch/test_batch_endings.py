"""What tasks on a pool say of their ends, with what the service knows of them."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import state_files
from fairway_agent.batch.notifications import Ending
from fairway_agent.limits import Over
from fairway_agent.spec import WARN, IdleGpu, RunPlan, TaskSpec
from fairway_agent.state_files import RunState, TaskState
from fairway_boot.files import write_json
from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.poller import Poller, limited, write_state
from fairway_runner.engines.batch.states import add_endings, completed
from fairway_runner.engines.batch.submission import State
from fairway_runner.engines.batch.task_files import TaskFiles
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import Run, RunStore

if TYPE_CHECKING:
    from pathlib import Path

WHY = "it was over its max_cost of 200 USD"


def ending(job: str = "r-1", task: str = "0", **state: Any) -> Ending:
    facts = {"state": "failed", "attempt": 0, "exit_code": 124, "held": 90.0, "reason": "x"}
    return Ending(job, task, "n1", TaskState(**{**facts, **state}), "max_cost", WHY)


class Service:
    """What nodes and storage have; `asked` counts."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.stored: dict[str, bytes] = {}
        self.asked = 0

    def task_file(self, _job: str, task: str, name: str, *_: int) -> bytes:
        self.asked += 1
        assert name == "wd/logs/ending.json"
        if task not in self.files:
            raise ServiceError(Finding("refused", "x"), status=404, code="")
        return self.files[task]

    def read(self, _container: str, blob: str, *_: int) -> bytes:
        if blob not in self.stored:
            raise ServiceError(Finding("refused", "x"), status=404, code="")
        return self.stored[blob]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record = RunRecord("r-1", "r", "b", time.time(), 1, "job.yaml", "0", engine="batch")
    made, lock = RunStore(tmp_path / ".fairway").create(record, {})
    os.close(lock)
    (made.folder / "tasks.jsonl").write_text(TaskSpec(0).line())
    (made.folder / "plan.json").write_text(RunPlan("r-1", "/x", max_duration=60.0).text())
    return made


def look(run: Run, service: Service, status: TaskState) -> tuple[TaskState, Over | None]:
    found = {0: status}
    files = TaskFiles(run, service, service, "r-1")  # type: ignore[arg-type]
    over = add_endings(files, 0, found)
    return found[0], over


FAILED = TaskState("failed", attempt=3, started=1.0, ended=9.0, exit_code=124)


def test_it_is_read_from_storage_where_the_node_is_gone(run: Run) -> None:
    service = Service()
    service.stored["r-1/endings/0/0/ending.json"] = json.dumps(ending().to_json()).encode()
    status, over = look(run, service, FAILED)
    assert (status.attempt, status.held, status.reason, status.started) == (0, 90.0, "x", 1.0)
    assert over == Over("max_cost", WHY)
    write_json(run.folder / "state.json", {"state": "running", "limit": "max_cost", "reason": WHY})
    files = TaskFiles(run, service, service, "r-1")  # type: ignore[arg-type]
    assert add_endings(files, 0, {}) == Over("max_cost", WHY), "it was found before"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[" * 60_000,
        b"null",
        json.dumps(ending(job="r-2").to_json()).encode(),
        json.dumps(ending(task="1").to_json()).encode(),
        json.dumps(ending(exit_code=0).to_json()).encode(),
        json.dumps(ending(state="running").to_json()).encode(),
    ],
)
def test_batch_ending_that_is_invalid_or_of_another_task_is_ignored(run: Run, text: bytes) -> None:
    service = Service()
    service.files["0"] = text
    assert look(run, service, FAILED) == (FAILED, None)


def test_a_limit_is_known_before_the_run_has_ended() -> None:
    """Its tasks may all have been read by then, and none is asked again."""
    over, going = Over("max_cost", WHY), RunState("running", started=1.0, tasks={"failed": 1})
    known = limited(going, over)
    assert (known.state, known.limit, known.reason, known.exit_code) == (
        *("running", "max_cost", WHY),
        None,
    )
    ended = limited(replace(known, state="cancelled", ended=9.0), over)
    assert (ended.state, ended.limit, ended.exit_code) == ("failed", "max_cost", 124)


def test_batch_ending_is_not_asked_for_without_need(run: Run) -> None:
    service = Service()
    assert look(run, service, TaskState("running", attempt=0)) == (
        TaskState("running", attempt=0),
        None,
    )
    killed = TaskState("failed", attempt=0, ended=9.0)  # without an exit code
    assert look(run, service, killed) == (killed, None)
    (run.folder / "plan.json").write_text(RunPlan("r-1", "/x").text())
    assert look(run, service, FAILED) == (FAILED, None)
    assert service.asked == 0


def test_a_task_that_is_known_to_have_ended_is_asked_no_more(run: Run) -> None:
    service: Any = Service()
    service.files["0"] = json.dumps(ending().to_json()).encode()
    times = {"startTime": "2026-03-01T12:00:00Z", "endTime": "2026-03-01T12:00:05Z"}
    info = {**times, "exitCode": 124, "result": "failure"}
    service.tasks = lambda *_: [{"id": "0", "state": "completed", "executionInfo": info}]
    for _ in range(2):
        poller = Poller(service, service)
        found, _ = poller._tasks(run, {"state": "active"}, State("r-1", 0), logs=False)
        poller._write_tasks(run, found)
        assert (found[0].state, found[0].held, service.asked) == ("failed", 90.0, 1)


def test_batch_ending_with_unkept_outputs_is_asked_for_its_reason(run: Run) -> None:
    """Whatever else the run tells of its tasks."""
    (run.folder / "plan.json").write_text(RunPlan("r-1", "/x").text())
    service = Service()
    said = replace(ending(exit_code=74), limit=None, why=None)
    service.files["0"] = json.dumps(said.to_json()).encode()
    status, over = look(run, service, replace(FAILED, exit_code=74))
    assert (status.reason, over, service.asked) == ("x", None, 1)


def test_a_task_whose_gpus_are_idle_is_warned_of_while_it_runs(run: Run) -> None:
    plan = RunPlan("r-1", "/x", idle_gpu=IdleGpu(5.0, 60.0, WARN))
    (run.folder / "plan.json").write_text(plan.text())
    service, status = Service(), TaskState("running", attempt=1)
    assert look(run, service, status) == (status, None)
    warned = Ending("r-1", "0", "n1", TaskState("running", attempt=1, reason="idle"))
    service.files["0"] = json.dumps(warned.to_json()).encode()
    assert look(run, service, status)[0].reason == "idle"
    assert completed(TaskState("running", attempt=2), warned).reason is None


def test_batch_run_end_reason_is_kept_when_the_service_has_none(run: Run) -> None:
    """As of one that is cancelled when it is to leave its target, whose log is read later."""
    why = RunState("cancelled", "it began when it was about to leave", started=1.0)
    state_files.write(run.folder, why)
    write_state(run, RunState("cancelled", started=1.0, ended=9.0))
    assert state_files.read_run(run.folder) == replace(why, ended=9.0)
    write_state(run, RunState("running", started=1.0))
    assert run.status.is_final
    write_state(run, RunState("failed", started=1.0, ended=9.0))
    assert run.status.reason is None
