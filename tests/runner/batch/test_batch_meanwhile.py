"""A run of a pool that another command submits, or retries, while it is looked at here."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.spec import RunPlan, TaskSpec
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
