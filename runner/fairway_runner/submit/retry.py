"""Ended runs once more: tasks that did not succeed in place, or the whole as a new run."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_agent import processes, record
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.local.engine import CANCEL_GRACE
from fairway_runner.runs.records import read_json
from fairway_runner.runs.results import task_results
from fairway_runner.runs.store import FINAL_STATES, RunStore, running
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.secret_values import secret_values
from fairway_runner.submit.submission import launch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run

_FILES = (
    *("job.yaml", "job.json", "target.json", "code.diff"),
    *("setup.jsonl", "tasks.jsonl", "finally.jsonl"),
)

# What is needed of each file: a key, and what it holds.
_NEEDED: dict[str, tuple[str, type]] = {
    "provenance.json": ("code", str),
    "plan.json": ("environment", dict),
}


def retry(run: Run, *, failed_only: bool = False) -> list[int]:
    """Starts the tasks of an ended run again that did not succeed; returns their numbers.

    With `failed_only` those that were cancelled or lost stay as they are. Each goes on from
    its checkpoints, its log is continued and its attempts count on; it has as many retries
    as before. A setup that succeeded is not repeated; `finally:` is. UserError where the run
    has not ended or has nothing to retry.
    """
    secrets = secret_values(_job(run).get("secrets", {}), os.environ)
    run.refresh()
    lock = run.take_lock()
    try:
        state = run.state_at_end
        if state not in FINAL_STATES:
            raise running(run)
        tasks = task_results(run, state)
        chosen = [task.index for task in tasks if _is_due(task, failed_only=failed_only)]
        if not chosen:
            raise _nothing(run, tasks)
        if state == "lost" and runs_here(run.record.engine):
            processes.end(processes.sessions_of(run.id), CANCEL_GRACE)
        record.write_json(run.folder / "retry.json", _retry_plan(run, state, tasks, chosen))
    except BaseException:
        os.close(lock)
        raise
    snapshot = code.stored(_read(run, "provenance.json")["code"], _snapshots(run))
    run.engine.start(run, lock, snapshot, secrets, retry=True)
    return chosen


def _is_due(task: TaskResult, *, failed_only: bool) -> bool:
    return task.state == "failed" if failed_only else task.state != "succeeded"


def _nothing(run: Run, tasks: Sequence[TaskResult]) -> UserError:
    if all(task.state == "succeeded" for task in tasks):
        hint = f"to run all of it again: fairway rerun {run.id}"
        return UserError.of("nothing-to-retry", f"every task of {run.id} succeeded", hint)
    hint = "leave out --failed for those that were cancelled or lost"
    return UserError.of("nothing-to-retry", f"no task of {run.id} failed", hint)


def _retry_plan(
    run: Run, state: str, tasks: Sequence[TaskResult], chosen: Sequence[int]
) -> dict[str, Any]:
    """What holds for this time, over the run's plan."""
    again = set(chosen)
    setup = run.setup_status(state)
    plan: dict[str, Any] = {
        "only": [task.index for task in tasks if task.index in again and not task.is_last],
        "done": Counter(
            task.state for task in tasks if task.index not in again and not task.is_last
        ),
        "is_set_up": setup is None or setup["state"] == "succeeded",
    }
    if any(task.attempts for task in tasks):
        plan["after"] = []  # what it came after was there when it began
    return plan


def rerun(run: Run) -> Run:
    """A new run of the same resolved job with the same code, from the run's own record.

    UserError where that record is incomplete.
    """
    store = RunStore(run.folder.parent.parent)
    secrets = secret_values(_job(run).get("secrets", {}), os.environ)
    run_id = store.new_id(run.record.name)
    record = replace(run.record, id=run_id, created=time.time(), fairway=fairway_core.__version__)
    provenance, plan = _read(run, "provenance.json"), _read(run, "plan.json")
    engine = run.engine
    inputs = {
        name: value
        for name, value in plan["environment"].items()
        if name.startswith("FAIRWAY_INPUT_")
    }
    plan |= {"run": run_id, "environment": {**engine.environment(), **inputs}}
    if runs_here(run.record.engine):
        plan["directory"] = str(store.folder / run_id / "code")
    files = {name: _text(run, name) for name in _FILES if (run.folder / name).exists()}
    files["plan.json"] = json.dumps(plan, indent=1)
    files["provenance.json"] = json.dumps({**provenance, "rerun_of": run.id}, indent=1)
    snapshots = _snapshots(run)
    with code.in_use(snapshots):
        snapshot = code.stored(provenance["code"], snapshots)
        if not snapshot.is_dir():
            message = f"the code snapshot of {run.id} no longer exists: {snapshot}"
            raise UserError.of("no-code", message, "submit the job again from its file")
        return launch(store, engine, record, files, snapshot, secrets)


def _snapshots(run: Run) -> Path:
    return run.folder.parent.parent / "code"


def _job(run: Run) -> dict[str, Any]:
    return _read(run, "job.json")


def _text(run: Run, name: str) -> str:
    try:
        return (run.folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def _unusable(run: Run, name: str) -> UserError:
    message = f"{run.folder / name}: missing or damaged"
    return UserError.of("damaged-run", message, "submit the job again from its file")


def _read(run: Run, name: str) -> dict[str, Any]:
    try:
        value = read_json(run.folder / name)
    except (UserError, OSError):
        value = {}
    key, kind = _NEEDED.get(name, ("name", str))
    if not isinstance(value.get(key), kind):
        raise _unusable(run, name)
    return value
