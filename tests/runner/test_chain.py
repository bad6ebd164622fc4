"""Inputs from other runs: which are refused, and at which line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from running import MakeRun, RunFairway

from fairway_agent.spec import RunOutputInput
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.clean import removable
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.view import input_facts
from fairway_runner.submit.run_inputs import add_kept
from fairway_runner.submit.run_plan import Inputs

MODEL = {"pattern": "model/**", "when": "success"}


@pytest.fixture
def train(make_run: MakeRun) -> Run:
    """A sweep of three tasks, the last of which failed, with a `finally`."""
    tasks: list[dict[str, Any]] = [{"log": "loss=2\n"}, {"log": "loss=1\n"}, {"state": "failed"}]
    metrics = {"loss": "loss=([0-9.]+)"}
    run = make_run("train-abc", [*tasks, {}], "failed", metrics=metrics)
    lines = (run.folder / "tasks.jsonl").read_text().splitlines()[:3]
    specs = [{**json.loads(line), "outputs": {"model": MODEL}} for line in lines]
    (run.folder / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in specs))
    last = {**specs[0], "index": "finally", "outputs": {"table": MODEL}}
    (run.folder / "finally.jsonl").write_text(json.dumps(last))
    folder = run.folder / "tasks/1/outputs/model"
    folder.mkdir(parents=True)
    (folder / "x").write_text("model")
    return run


def chain(folder: Path, store: RunStore, source: Any, *, asks: bool = True) -> Inputs:
    """Resolves the input of a job on this machine."""
    file = folder / "job.yaml"
    file.write_text(f"name: a\ncommand: 'true'\ninputs:\n  model: {json.dumps(source)}\n")
    job_file, target = load_job(file), Target.local()
    job, engine = job_file.resolve(target), engine_for(target)
    usual: Any = {"coming": (), "active": (), "copies": True}
    found = Inputs()
    add_kept(found, job_file, job, engine, store, "a-a", asks=asks, **usual)
    return found


@pytest.mark.parametrize(
    "source",
    [
        {"from": "run", "run": "train-abc", "task": 1},
        {"from": "run", "run": "train", "task": 1, "output": "model"},
        {"best": {"run": "train-abc"}},
    ],
)
def test_chained_input_resolves_to_the_output_of_a_task(
    tmp_path: Path, store: RunStore, train: Run, source: Any
) -> None:
    found = chain(tmp_path, store, source)
    assert found.run_inputs == [RunOutputInput("model", "runs/train-abc/tasks/1/outputs/model")]
    best = {"metric": "loss", "value": 1.0} if "best" in source else {}
    known = {"run": "train-abc", "task": "1", "output": "model", **best}
    assert found.facts == {"model": known}


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ({"run": "tain-abc", "task": 1}, "there is no run `tain-abc`", "did you mean `train-abc`"),
        ({"run": "../train-abc", "task": 1}, "there is no run", ""),
        ({"run": "train-abc"}, "train-abc is a sweep of 3 tasks", "`task: 0` to 2, or `best: "),
        ({"run": "train-abc", "task": 3}, "train-abc has no task 3", "0 to 2, and finally"),
        ({"run": "train-abc", "task": 2}, "has failed, and keeps `model` only on success", ""),
        ({"run": "train-abc", "task": 0}, "task 0 of train-abc has kept no file in `model`", ""),
        (
            *({"run": "train-abc", "task": 1, "output": "modle"}, "1 of train-abc keeps no output"),
            "did you mean `model`?",
        ),
        ({"run": "train-abc", "task": "finally"}, "finally of train-abc keeps no output", "table"),
        ({"best": {"run": "two-abc"}}, "two-abc has 2 metrics", "add metric: loss or norm"),
        ({"best": {"run": "train-abc", "metric": "los"}}, "train-abc has no metric `los`", "loss"),
        (
            *({"best": {"run": "train-abc", "better": "higher"}}, "has kept no file in `model`"),
            "fairway logs train-abc",
        ),
    ],
)
def test_chained_input_that_does_not_exist_is_refused_at_its_line(
    tmp_path: Path,
    store: RunStore,
    train: Run,
    make_run: MakeRun,
    source: Any,
    message: str,
    hint: str,
) -> None:
    make_run("two-abc", metrics={**train.record.metrics, "norm": "norm=([0-9.]+)"})
    given = source if "best" in source else {"from": "run", **source}
    finding = refused(lambda: chain(tmp_path, store, given))
    assert message in finding.message
    assert hint in finding.hint
    assert (finding.path, finding.location.line) == ("inputs.model", 4)


@pytest.mark.parametrize(("engine", "code"), [("local", 2), ("ssh", 0)])
def test_chained_input_missing_here_does_not_fail_a_dry_run(
    tmp_path: Path, here: RunFairway, train: Run, engine: str, code: int
) -> None:
    """A dry run does not require files that exist only after they are copied."""
    shutil.rmtree(train.folder / "tasks/1/outputs")
    record = json.loads((train.folder / "run.json").read_text())
    (train.folder / "run.json").write_text(json.dumps({**record, "engine": engine}))
    (tmp_path / "job.yaml").write_text(
        "name: a\ntemplate: plain\ncommand: 'true'\n"
        "inputs: {model: {from: run, run: train-abc, task: 1}}\n"
    )
    assert here("submit", "job.yaml", "--dry-run")[0] == code
    (tmp_path / "steps.yaml").write_text(
        "name: a\ntemplate: plain\nsteps: {one: {command: 'true', "
        "inputs: {model: {from: run, run: train-abc, task: 1}}}}\n"
    )
    assert here("submit", "steps.yaml", "--dry-run")[0] == code


def test_chained_input_of_a_remote_run_is_not_refreshed_without_asking(
    tmp_path: Path, store: RunStore, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("far-abc", [{"state": "running"}], "running", engine="ssh")
    spec = json.loads((run.folder / "tasks.jsonl").read_text().splitlines()[0])
    (run.folder / "tasks.jsonl").write_text(json.dumps({**spec, "outputs": {"model": MODEL}}))
    asked: list[str] = []
    monkeypatch.setattr(Run, "refresh", lambda run, **_: asked.append(run.id))
    source = {"from": "run", "run": "far-abc"}
    finding = refused(
        lambda: chain(tmp_path, store, source), "far-abc has not ended: it is running"
    )
    assert finding.hint == "wait for it first: fairway wait far-abc"
    assert asked == ["far-abc"]
    found = chain(tmp_path, store, source, asks=False)
    assert found.facts["model"]["run"] == "far-abc"
    assert asked == ["far-abc"]


def test_chained_input_on_an_unreachable_target_raises_target_unavailable(
    tmp_path: Path, store: RunStore, train: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission to one of several targets then tries the next one, and a step waits."""

    def refresh(_: Run, *, logs: bool) -> None:
        raise TargetUnavailable.of("no-connection", "far does not answer", exit_code=5)

    monkeypatch.setattr(Run, "refresh", refresh)
    with pytest.raises(TargetUnavailable) as caught:
        chain(tmp_path, store, {"from": "run", "run": "train-abc", "task": 1})
    [finding] = caught.value.findings
    assert (finding.path, caught.value.exit_code) == ("inputs.model", 5)


def test_chained_input_of_a_running_run_keeps_its_source_from_removal(
    store: RunStore, train: Run, make_run: MakeRun
) -> None:
    reader = make_run("score-abc", state="running", engine="elsewhere")
    known = {"run": "train-abc", "task": "1", "output": "model"}
    facts = {"code": "c" * 64, "inputs": {"model": known, "odd": 3, "more": {"run": 1}}}
    (reader.folder / "provenance.json").write_text(json.dumps(facts))
    assert input_facts(reader) == {"model": known}
    needs = "score-abc, which has not ended, needs outputs of train-abc"
    refused(lambda: removable(store, ["train-abc"]), needs)
    assert removable(store) == []
    (reader.folder / "state.json").write_text(json.dumps({"state": "succeeded"}))
    assert {run.id for run in removable(store)} == {"score-abc", "train-abc"}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (0.5, "input   model: model of task 1 of train-abc (loss=0.5)"),
        ("\x1b[2J", "input   model: model of task 1 of train-abc"),
    ],
)
def test_chained_input_is_shown_with_its_source_run_and_metric(
    make_run: MakeRun, here: RunFairway, value: Any, line: str
) -> None:
    run = make_run("score-abc")
    known = {"run": "train-abc", "task": "1", "output": "model", "metric": "loss", "value": value}
    (run.folder / "provenance.json").write_text(json.dumps({"inputs": {"model": known}}))
    code, out, _ = here("show", run.id)
    assert code == 0
    assert line in out.splitlines()
