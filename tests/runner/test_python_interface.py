"""The Python interface: values that it accepts, and errors for those that it refuses."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endings import refused
from running import MakeRun

from fairway_core.findings import UserError
from fairway_hpc import Job, compare, rerun, runs, submit
from fairway_runner.runs.store import Run, RunStore

X = {"name": "x", "template": "plain", "command": "echo {{ params.x }}"}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (np.int64(32), 32),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        ([np.int32(1), np.float32(0.5)], [1, 0.5]),
        (range(2, 8, 3), [2, 5]),
        (Path("data"), "data"),
    ],
)
def test_job_accepts_numpy_values_ranges_and_paths(given: Any, taken: Any) -> None:
    job = Job(**X, params={"x": given})
    assert json.dumps(job.params["x"]) == json.dumps(taken)
    values = given if isinstance(given, np.ndarray | range) else [given]
    sweep = Job(**X, sweep={"points": {"grid": {"x": values}}}).model_dump(mode="json")["sweep"]
    wanted = taken if isinstance(given, np.ndarray | range) else [taken]
    assert sweep["points"]["grid"]["x"] == wanted
    assert Job(**X, processes_per_node=np.int64(2)).processes_per_node == 2


def test_job_accepts_finally_with_underscore_and_refuses_steps() -> None:
    last = Job(**X, finally_={"command": "echo last"}).finally_
    assert last is not None
    assert last.command == "echo last"
    with pytest.raises(UserError, match=r"unknown key `steps`\n.*write them in a job file"):
        Job(**X, steps={"one": {"command": "true"}})


def test_job_refuses_unsupported_values_by_type_size_or_depth() -> None:
    refused(lambda: Job(**X, params={"x": object()}), r"`params\.x`.*found an `object`")
    refused(lambda: Job(**X, params={"x": np.float32}), r"`params\.x`.*found a `type`")
    with pytest.raises(UserError, match="more than 100,000 values"):
        Job(**X, sweep={"points": {"grid": {"x": range(10**30)}}})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UserError, match="`Job`: lists or mappings are nested too deeply"):
        Job(**X, params={"x": endless})


@pytest.mark.parametrize(
    "call",
    [
        lambda: submit(Job(name="x", command="true"), tags="abc"),
        lambda: submit(Job(name="x", command="true"), set="nodes=1"),
        lambda: rerun("job-a", set="nodes=1"),
        lambda: rerun("job-a", tags="abc"),
        lambda: runs(tags="abc"),
        lambda: runs(states="failed"),
        lambda: compare("job-a"),
        lambda: runs()[0].label("abc"),
        lambda: runs()[0].label(remove="abc"),
    ],
)
def test_functions_refuse_text_in_place_of_a_list(
    call: Callable[[], object],
    make_run: MakeRun,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run("job-a")
    monkeypatch.chdir(store.base.parent)
    refused(lambda: call(), "expected a list, found the text")
    assert [each.id for each in runs()] == ["job-a"]
    assert run.tags == ()


def test_wait_returns_at_the_end_or_raises_after_its_timeout(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target has the timeout as its deadline; a local supervisor finishes its last work first."""
    told: list[Any] = []
    monkeypatch.setattr(Run, "await_lock", lambda run: told.append(run.id))
    monkeypatch.setattr(Run, "follow", lambda run, **_: told.append(run.engine.deadline))
    make_run("job-a").wait(timeout=0)
    run = make_run("job-b", [{"state": "running"}], state="running")
    lock = run.take_lock()  # stands for a supervisor
    with pytest.raises(UserError, match=r"job-b is still running after 0\.0s") as caught:
        run.wait(timeout=0)
    with pytest.raises(UserError, match="job-b is still running after 1m15s"):
        next(run.looks(timeout=75, began=time.monotonic() - 76))  # another run took the time
    os.close(lock)
    assert (caught.value.findings[0].id, caught.value.exit_code) == ("wait-timeout", 5)
    assert told == [0.0, "job-a", 0.0, 0.0]


def test_functions_refuse_unknown_states_missing_folders_and_wrong_jobs(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(store.base.parent)
    refused(lambda: runs(states=["done"]), "`done` is not a state of a run")
    refused(lambda: runs(tmp_path / "absent"), "absent is not a folder")
    with pytest.raises(UserError, match="expected a `Job` or the path of a job file, found a map"):
        submit(X)  # type: ignore[arg-type]
    for number in (math.inf, 10**5000):
        with pytest.raises(UserError, match="is not finite or too large"):
            submit(Job(name="x", command="echo", params={"x": number}))
