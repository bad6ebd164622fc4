"""Fixtures that write runs to disk without running anything."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from running import MakeRun, RunFairway, run_fairway

from fairway_runner.runs.store import Run, RunRecord, RunStore

if TYPE_CHECKING:
    from fairway_simulator.azure import ControlPlane


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / ".fairway")


@pytest.fixture
def make_run(store: RunStore) -> MakeRun:
    """Makes a run that has ended: `make_run("job-a", [{"params": …, "log": …}, …])`.

    The keys of a task are params, log, state, exit_code, attempt, nodes, processes_per_node,
    outputs (when each is kept), kept (their files) and empty (the names of those without one).
    """
    return partial(_make, store)


@pytest.fixture(scope="session")
def make_run_in() -> MakeRun:
    """Makes a run as `make_run` does, in the store given as the first argument."""
    return _make


def _make(
    store: RunStore,
    run_id: str,
    tasks: list[dict[str, Any]] | None = None,
    state: str = "succeeded",
    **facts: Any,
) -> Run:
    tasks = tasks if tasks is not None else [{}]
    known = {"name": run_id.rpartition("-")[0], "target": "local", "created": 1e9}
    known |= {"job_file": "job.yaml", "fairway": "0", "tasks": len(tasks), **facts}
    files = {
        "tasks.jsonl": "".join(_spec(index, task) for index, task in enumerate(tasks)),
        "job.json": json.dumps({"name": known["name"], "command": "true"}),
        "provenance.json": json.dumps({"code": "c" * 64}),
    }
    for index, task in enumerate(tasks):
        if "log" in task:
            files[f"tasks/{index}/log.txt"] = task["log"]
        for name, content in task.get("kept", {}).items():
            files[f"tasks/{index}/outputs/{name}"] = content
        files[f"tasks/{index}/state.json"] = json.dumps({"version": 1, **_state(task)})
    run, lock = store.create(RunRecord(id=run_id, **known), files)
    counts = Counter(task.get("state", "succeeded") for task in tasks)
    created = known["created"]
    status = {"state": state, "started": created, "ended": created + 60, "tasks": counts}
    (run.folder / "state.json").write_text(json.dumps({"version": 1, **status, "reason": None}))
    os.close(lock)
    return run


def _spec(index: int, task: dict[str, Any]) -> str:
    spec = {"index": index, "params": task.get("params", {}), "script": "true\n" * 400}
    spec["nodes"] = task.get("nodes", 1)
    spec["outputs"] = {
        name: {"pattern": f"{name}/**", "when": when}
        for name, when in task.get("outputs", {}).items()
    }
    spec["processes_per_node"] = task.get("processes_per_node", 1)
    return json.dumps(spec) + "\n"


def _state(task: dict[str, Any]) -> dict[str, Any]:
    state = task.get("state", "succeeded")
    facts = {"state": state, "attempt": task.get("attempt", 0), "started": 1e9, "ended": 1e9 + 5}
    if "begins" in task:
        facts["begins"] = task["begins"]
    if "empty" in task:
        facts["empty_outputs"] = task["empty"]
    return {**facts, "exit_code": task.get("exit_code", 0 if state == "succeeded" else 1)}


@pytest.fixture
def no_kept_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restricts prices to those of the catalogue."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FAIRWAY_PRICES_URL", raising=False)


@pytest.fixture
def azure_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[ControlPlane]":
    """Azure on loopback, without settings for Azure from the outer environment."""
    from fairway_simulator.azure import ControlPlane

    for name in [name for name in os.environ if name.startswith(("ARM_", "AZURE_"))]:
        monkeypatch.delenv(name)
    (folder := tmp_path / "azure").mkdir()
    with ControlPlane(folder) as plane:
        for name, text in plane.environment().items():
            monkeypatch.setenv(name, text)
        yield plane


@pytest.fixture
def fairway() -> RunFairway:
    """The program, run in this process and a given folder: exit code, output and errors."""
    return run_fairway


@pytest.fixture
def here(fairway: RunFairway, store: RunStore) -> RunFairway:
    """The program in the folder of the store's project."""
    return partial(fairway, store.base.parent)
