"""Runs of a pool that other commands submit, retry or cancel, as they are seen here."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.spec import RunPlan, TaskSpec
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.adoption import write_history
from fairway_runner.engines.batch.poller import Poller
from fairway_runner.engines.batch.submission import State
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import Run, RunStore

if TYPE_CHECKING:
    from pathlib import Path

ENDED = {"id": "r-1", "state": "completed", "executionInfo": {"endTime": "2026-01-01T00:00:00Z"}}
FAILED = {
    "id": "0",
    "state": "completed",
    "executionInfo": {"exitCode": 1, "startTime": "2026-01-01T00:00:00Z"},
}


def made(tmp_path: Path, name: str = "r-1") -> Run:
    record = RunRecord(name, "r", "b", time.time(), 1, "job.yaml", "0", engine="batch")
    run, lock = RunStore(tmp_path / ".fairway").create(record, {})
    os.close(lock)
    (run.folder / "tasks.jsonl").write_text(TaskSpec(0).line())
    (run.folder / "plan.json").write_text(RunPlan(name, "/x").text())
    return run


@pytest.mark.parametrize("others", [0, 3])
def test_a_run_that_is_submitted_meanwhile_is_not_lost(tmp_path: Path, others: int) -> None:
    run = made(tmp_path)
    State("r-1", 0).write(run)
    found: dict[str, Any] = {}

    def jobs() -> list[Any]:
        found["r-1"] = {"id": "r-1", "state": "active"}
        State("r-1", 0, complete=True).write(run)
        return []

    def find(name: str) -> Any:
        if not found:
            jobs()
            return None
        return found.get(name)

    counts = {"running": 1}
    account: Any = SimpleNamespace(
        *(), jobs=jobs, find_job=find, tasks=lambda *_: (), task_counts=lambda _: counts
    )
    account.preparation = account.nodes = lambda *_: ()
    account.pool_facts = dict
    more = [made(tmp_path, f"o-{number}") for number in range(others)]
    Poller(account, SimpleNamespace()).refresh([run, *more], logs=False)  # type: ignore[arg-type]
    assert run.state in ("queued", "running")


def test_the_end_of_the_submission_before_is_not_the_retrys(tmp_path: Path) -> None:
    run = made(tmp_path)
    State("r-1", 0, complete=True, tasks=1).write(run)

    def retry_meanwhile(*_: object) -> Any:
        State("r-1.1", 1, tasks=1).write(run)
        return [FAILED]

    account: Any = SimpleNamespace(find_job=lambda _: ENDED, tasks=retry_meanwhile)
    account.task_file = account.preparation = lambda *_: ()
    storage: Any = SimpleNamespace(blobs=lambda *_: ())
    Poller(account, storage).refresh([run], logs=False)
    assert (run.state, run.task_status(0).state) == ("queued", "queued")


def test_tasks_of_an_earlier_submission_are_counted_too(tmp_path: Path) -> None:
    runs = [made(tmp_path), made(tmp_path, "r-2")]
    State("r-1.1", 1, complete=True, only=(3,), done={"succeeded": 3}).write(runs[0])
    counts = {"running": 1}
    job = {"id": "r-1.1", "state": "active"}
    account: Any = SimpleNamespace(find_job=lambda _: job, task_counts=lambda _: counts)
    Poller(account, SimpleNamespace()).refresh(runs, logs=False)  # type: ignore[arg-type]
    assert runs[0].status.tasks == {"running": 1, "succeeded": 3}


def test_a_task_that_a_person_ended_is_cancelled_for_who_finds_the_run(tmp_path: Path) -> None:
    """Its run was retried since, and the one task of it again."""
    run = made(tmp_path)
    (run.folder / "tasks.jsonl").write_text(TaskSpec(0).line() + TaskSpec(1).line())
    facts = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**facts, "tasks": 2}))
    run = Run(run.folder)
    ended = {"exitCode": 130, "failureInfo": {"code": "FailureExitCode"}}
    first = [
        {**FAILED, "executionInfo": {**FAILED["executionInfo"], **ended}},
        {**FAILED, "id": "1"},
    ]
    tasks = {"r-1": first, "r-1.1": [{"id": "1", "state": "active"}]}
    account: Any = SimpleNamespace(tasks=lambda job, _: tasks[job])
    note = f"{names.cancelled_folder('r-1', 0)}0"
    storage: Any = SimpleNamespace(blobs=lambda *_: [SimpleNamespace(name=note)])
    retried = {**ENDED, "id": "r-1.1", "metadata": [{"name": names.SUBMISSION, "value": "1"}]}
    write_history(run.folder, account, storage, [ENDED, retried])
    state = State.read(run)
    assert run.task_status(0).state == "cancelled"
    assert state is not None
    assert (state.only, state.done) == ((1,), {"cancelled": 1})
