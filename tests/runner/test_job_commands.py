"""`fairway render` and `fairway sweep`: scripts and points of a job, and errors at its lines."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from endings import ends
from running import RunFairway

from fairway_runner.quantities import format_cell
from fairway_runner.runs.view import varying_parameters

JOB = "name: a\ntemplate: plain\ncommand: echo {{ params.n }} ü\nparams: {n: 1}\n"


def test_render_prints_the_script_also_within_json(tmp_path: Path, here: RunFairway) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    code, script, _ = here("render", "job.yaml", "-s", "params.n=7")
    assert code == 0
    assert "echo 7 ü" in script
    code, out, err = here("render", "job.yaml", "-s", "params.n=7", "--json")
    assert (code, err) == (0, "")
    facts = {"name": "a", "target": "local", "template": "plain", "script": script}
    assert json.loads(out) == facts
    assert not (tmp_path / ".fairway").exists()
    done = here("render", "job.yaml", "-s", "template=none", "--json")
    ends(done, 2, "there is no template `none`", printed="")


JOB_SWEEP = """\
name: digits
command: python train.py --lr {{ params.lr }} --optimizer {{ params.optimizer }}
params: {epochs: 3, lr: 0.5}
sweep:
  max_parallel: 2
  points:
    - grid: {lr: [0.1, 1.0e-4], tags: [[a, b], ["[red]x"]]}
    - random: {count: 2, seed: 7, optimizer: {choice: [sgd, adam]}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(JOB_SWEEP)
    return tmp_path / "job.yaml"


@pytest.fixture
def sweep(job: Path, fairway: RunFairway) -> RunFairway:
    """`fairway sweep` in the folder of the job."""
    return partial(fairway, job.parent, "sweep")


def json_of(sweep: RunFairway, *arguments: str) -> Any:
    code, printed, _ = sweep(*arguments, "--json")
    assert code == 0
    return json.loads(printed)


def test_sweep_prints_points_with_overrides_and_truncates_long_tables(sweep: RunFairway) -> None:
    found = json_of(sweep, "job.yaml")
    assert [each["index"] for each in found] == list(range(6))
    assert found[0]["params"] == {"epochs": 3, "lr": 0.1, "tags": ["a", "b"]}
    assert found[3]["params"] == {"epochs": 3, "lr": 0.0001, "tags": ["[red]x"]}
    assert found[4]["params"].keys() == {"epochs", "lr", "optimizer"}
    assert found[4]["params"]["lr"] == 0.5
    code, printed, _ = sweep("job.yaml")
    assert code == 0
    shared, *lines = printed.splitlines()
    assert shared.split() == ["params", "epochs=3"]
    assert lines[0].split() == ["TASK", "lr", "tags", "optimizer"]
    assert len(lines) == 7
    assert lines[1].split() == ["0", "0.1", "[a,", "b]"]
    assert lines[4].split() == ["3", "0.0001", "[[red]x]"]
    assert lines[5].split()[:2] == ["4", "0.5"]
    points = "sweep.points={grid: {a: {start: 0, stop: 1500, step: 1}}}"
    lines = sweep("job.yaml", "-s", points)[1].splitlines()
    assert len(lines) == 2 + 1000 + 1
    assert lines[-2].split() == ["999", "999"]
    assert lines[-1] == "… and 500 more; all of them: --json"
    assert len(json_of(sweep, "job.yaml", "-s", points)) == 1500
    settings = ["sweep.points.1.random.count=5", "sweep.points.0.grid.lr=[7]", "params.epochs=9"]
    settings += ["sweep.points.1.random.width.integer=[3, 4]"]
    arguments = [part for setting in settings for part in ("-s", setting)]
    found = json_of(sweep, "job.yaml", *arguments)
    assert len(found) == 2 + 5
    assert {each["params"]["epochs"] for each in found} == {9}
    assert [each["params"]["lr"] for each in found[:2]] == [7, 7]
    assert {each["params"]["width"] for each in found[2:]} == {3}
    found = json_of(sweep, "job.yaml", "-s", "sweep.points={repeat: 2}")
    assert [each["params"] for each in found] == [{"epochs": 3, "lr": 0.5}] * 2
    code, printed, _ = sweep("job.yaml", "-s", "sweep.points={repeat: 2}")
    assert (code, printed.split()) == (0, ["params", "epochs=3", "lr=0.5", "TASK", "0", "1"])


@pytest.mark.parametrize(
    ("end", "place", "words"),
    [
        ("", "job.yaml: the job has no sweep", "add for example"),
        ("sweep:", "the job has no sweep", "- grid: {lr: [0.1, 0.01]}"),
        ("sweeps: {points: {repeat: 2}}", "the job has no sweep", "did you mean `sweep`"),
        ("sweep:\n  points:\n    - files: '*.csv'", "job.yaml:5:14: error:", "matches no file"),
        ("sweep:\n  points:\n    - python: a:f", "job.yaml:5:15: error:", "no module `a`"),
        ("sweep: {points: {python: 'my_empty:f'}}", "job.yaml:3:26: error:", "yields no point"),
        ("sweep: {points: {python: 'my_fault:f'}}", "my_fault.py:2:5: error:", "ZeroDivision"),
        ("params: {a: null}\nsweep: {points: {repeat: 2}}", "job.yaml:3:13: error: `params.a`", ""),
        (
            "sweep: {points: {random: {count: 9, x: {pareto: [1e-4]}}}}",
            "job.yaml:3:49:",
            "too large",
        ),
    ],
)
def test_sweep_prints_faults_with_their_place(
    tmp_path: Path, sweep: RunFairway, end: str, place: str, words: str
) -> None:
    (tmp_path / "my_empty.py").write_text("def f():\n    return []\n")
    (tmp_path / "my_fault.py").write_text("def f():\n    1 / 0\n")
    (tmp_path / "job.yaml").write_text(f"name: a\ncommand: x\n{end}\n")
    ends(sweep("job.yaml"), 2, place, words, printed="")


def test_sweep_resolves_relative_paths_from_the_folder_of_the_job_file(
    job: Path, fairway: RunFairway
) -> None:
    (job.parent / "one.csv").touch()
    (job.parent / "my_points.py").write_text("def f():\n    print('x')\n    yield {'n': 1}\n")
    elsewhere = job.parent / "elsewhere"
    elsewhere.mkdir()
    points = "sweep.points=[{files: '*.csv'}, {python: 'my_points:f'}]"
    found = json_of(partial(fairway, elsewhere, "sweep"), "../job.yaml", "-s", points)
    assert [each["params"] for each in found] == [
        {"epochs": 3, "lr": 0.5, "file": "one.csv", "name": "one.csv", "stem": "one"},
        {"epochs": 3, "lr": 0.5, "n": 1},
    ]


def test_varying_parameters_are_selected_and_their_values_escaped() -> None:
    assert varying_parameters([{"a": 1, "b": [1]}, {"b": [1], "a": 1}]) == []
    assert varying_parameters([{"a": 1}, {"a": True}]) == ["a"]
    assert varying_parameters([{"a": 1}, {}, {"b": 2}]) == ["a", "b"]
    assert varying_parameters([{"a": [1]}, {"a": [1, 2]}]) == ["a"]
    assert format_cell("a\x1b[31m") == '"a\\u001b[31m"'
    assert format_cell("") == '""'
    assert format_cell([True, 0.1, "x\ty"]) == '[true, 0.1, "x\\ty"]'
