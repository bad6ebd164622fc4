"""Runs side by side: `fairway compare`, and the same from Python."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import fairway_hpc
from fairway_runner.runs.compare import compare
from fairway_runner.runs.records import STEPS_FILE, StepRecord, steps_text

if TYPE_CHECKING:
    import pytest
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import Run, RunStore

METRICS = {"loss": "loss=([0-9.]+)"}


def _make(make_run: MakeRun, name: str, losses: str, lr: float, **job: Any) -> Run:
    log = "".join(f"loss={loss}\n" for loss in losses.split())
    task = {"log": log, "params": {"lr": lr, "epochs": 3}}
    run = make_run(name, [task], metrics=METRICS)
    (run.folder / "job.json").write_text(json.dumps({"name": "job", "command": name, **job}))
    git = {"commit": f"{name[-1] * 40}", "dirty": name == "job-b"}
    (run.folder / "provenance.json").write_text(json.dumps({"git": git}))
    return run


def test_compare_shows_differing_settings_and_metrics(make_run: MakeRun) -> None:
    env = {"NCCL_DEBUG": "INFO", "SAME": "1"}
    runs = [
        _make(make_run, "job-a", "0.9 0.2 0.5", 0.1, env=env, template="torchrun"),
        _make(make_run, "job-b", "0.7 0.1", 0.2, env={"SAME": "1"}, template="torchrun"),
    ]
    first, second = compare([*runs, runs[0]])
    assert first["differs"] == {"lr": 0.1, "env.NCCL_DEBUG": "INFO"}
    assert second["differs"] == {"lr": 0.2}
    assert first["params"] == {"lr": 0.1, "epochs": 3}
    assert first["metrics"] == {"loss": {"last": 0.5, "lowest": 0.2, "highest": 0.9}}
    assert (first["run_id"], first["task"], first["state"]) == ("job-a", 0, "succeeded")
    assert (first["commit"], first["dirty"]) == ("a" * 40, False)
    assert second["dirty"]


def test_a_parameter_named_as_a_field_is_told_apart(make_run: MakeRun) -> None:
    runs = [
        make_run(f"job-{n}", [{"params": {"nodes": n}, "nodes": 2 * n}], metrics={}) for n in (1, 2)
    ]
    assert [each["differs"] for each in compare(runs)] == [
        {"params.nodes": 1, "nodes": 2},
        {"params.nodes": 2, "nodes": 4},
    ]


def test_tasks_of_a_sweep_are_lines_of_their_own(here: RunFairway, make_run: MakeRun) -> None:
    make_run(
        "sweep-a", [{"log": f"loss={n}\n", "params": {"lr": n}} for n in (1, 2)], metrics=METRICS
    )
    code, out, _ = here("compare", "sweep-a")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["RUN", "lr", "STATE", "TIME", "loss"],
        ["sweep-a/0", "1", "succeeded", "5.0s", "1"],
        ["sweep-a/1", "2", "succeeded", "5.0s", "2"],
    ]


def test_tables_csv_and_json(here: RunFairway, make_run: MakeRun) -> None:
    _make(make_run, "job-a", "0.9 0.2 0.5", 0.1)
    _make(make_run, "job-b", "0.7", 0.2)
    _, out, _ = here("compare", "job-a", "job-b")
    head, first, second = out.splitlines()
    assert " ".join(head.split()) == "RUN lr STATE TIME loss lowest loss highest loss COMMIT"
    assert " ".join(first.split()) == "job-a 0.1 succeeded 5.0s 0.5 0.2 0.9 aaaaaaaaaa"
    assert second.split()[-1] == "bbbbbbbbbb+"
    _, out, _ = here("compare", "job-a", "job-b", "--csv")
    one, other = csv.DictReader(io.StringIO(out))
    assert (one["run_id"], one["lr"], one["loss"], one["lowest loss"]) == (
        "job-a",
        "0.1",
        "0.5",
        "0.2",
    )
    assert (one["dirty"], other["dirty"], other["commit"]) == ("false", "true", "b" * 40)
    _, out, _ = here("compare", "job-a", "job-b", "--json")
    assert [each["differs"] for each in json.loads(out)] == [{"lr": 0.1}, {"lr": 0.2}]


def test_compare_refuses_unknown_runs_and_conflicting_options(
    here: RunFairway, make_run: MakeRun
) -> None:
    make_run("job-a")
    for words, says in (
        (["job-a", "job-x"], "there is no run `job-x`"),
        (["job-a", "--csv", "--json"], "--csv and --json"),
    ):
        code, _, err = here("compare", *words)
        assert code == 2, words
        assert says in err


def test_in_place_of_a_run_with_steps_stand_those_that_have_begun(make_run: MakeRun) -> None:
    whole = make_run("pipe-a", [{}, {}, {}], metrics={})
    known = [StepRecord(name, f"pipe-a-{name}", "local", {}) for name in ("one", "two", "three")]
    (whole.folder / STEPS_FILE).write_text(steps_text(known))
    for number, name in enumerate(("one", "two")):
        step = _make(make_run, f"pipe-a-{name}", "0.5", number)
        origin = {"step": {"of": "pipe-a", "name": name}}
        (step.folder / "provenance.json").write_text(json.dumps(origin))
    make_run("pipe-a-three")  # of the same name, and no step of it
    found = [(each["run_id"], each["differs"].get("lr")) for each in compare([whole])]
    assert found == [("pipe-a-one", 0), ("pipe-a-two", 1)]


def test_from_python(make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _make(make_run, "job-a", "0.9", 0.1)
    _make(make_run, "job-b", "0.7", 0.2)
    monkeypatch.chdir(store.base.parent)
    records = fairway_hpc.compare([run, "job-b"])
    assert [each["metrics"]["loss"]["last"] for each in records] == [0.9, 0.7]
