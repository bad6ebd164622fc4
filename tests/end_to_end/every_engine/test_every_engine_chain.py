"""Runs that read what other runs have kept, over every engine."""

import json
from typing import Any

import pytest
from program import Fairway, Place

READ = 'find "$FAIRWAY_INPUT_MODEL/" -type f -print0 | sort -z | xargs -0 cat'


def kept(fairway: Fairway, target: str, command: str, **fields: Any) -> str:
    """A run on the target that has kept what the command wrote into its output `model`."""
    outputs = {"model": {}, "other": {"when": "failure"}}
    job = fairway.job(command, template="plain", outputs=outputs, **fields)
    run = fairway.submit(job, "--target", target)
    assert fairway.within("wait", run).returncode == 0
    return run


def read(fairway: Fairway, target: str, source: Any) -> tuple[str, dict[str, Any]]:
    """Text that a run on the target reads from an input of that source, and the input in `show`."""
    run = fairway.submit(
        fairway.job(READ, template="plain", inputs={"model": source}), "--target", target
    )
    assert fairway.within("wait", run).returncode == 0, fairway("logs", run).stdout
    return fairway.within("logs", run).stdout, fairway.show(run)["inputs"]["model"]


@pytest.mark.one_engine("ssh")
def test_chained_output_is_read_on_any_target(fairway: Fairway, place: Place) -> None:
    deep = 'mkdir -p "$FAIRWAY_OUTPUT_MODEL/a b" && echo one >"$FAIRWAY_OUTPUT_MODEL/a b/x.txt"'
    here = kept(fairway, "local", f'{deep} && echo two >"$FAIRWAY_OUTPUT_MODEL/y.txt"')
    there = kept(fairway, place.name, f'{deep} && echo three >"$FAIRWAY_OUTPUT_MODEL/y.txt"')
    for run, target, text in (
        (here, place.name, "one\ntwo\n"),
        (there, place.name, "one\nthree\n"),
        (there, "local", "one\nthree\n"),
    ):
        said, facts = read(fairway, target, {"from": "run", "run": run})
        assert (said, facts) == (text, {"run": run, "task": "0", "output": "model"})
    assert f"input   model: model of task 0 of {there}" in fairway("show", newest(fairway)).stdout


def newest(fairway: Fairway) -> str:
    """The run that was submitted last."""
    runs = json.loads(fairway.within("list", "--json").stdout)
    return str(max(runs, key=lambda run: run["created"])["run_id"])


@pytest.mark.one_engine("ssh")
def test_the_best_task_of_a_sweep_is_read(fairway: Fairway, place: Place) -> None:
    run = kept(
        fairway,
        place.name,
        "echo loss={{ params.x }}; echo {{ params.x }} > $FAIRWAY_OUTPUT_MODEL/x",
        sweep={"points": {"grid": {"x": [3, 1, 2]}}},
        metrics={"loss": "loss=([0-9.]+)"},
    )
    said, facts = read(fairway, place.name, {"best": {"run": run, "metric": "loss"}})
    assert said == "1\n"
    assert facts == {"run": run, "task": "1", "output": "model", "metric": "loss", "value": 1.0}
    said, _ = read(fairway, place.name, {"best": {"run": run, "better": "higher"}})
    assert said == "3\n"
    said, _ = read(fairway, place.name, {"from": "run", "run": run, "task": 2})
    assert said == "2\n"


@pytest.mark.one_engine("ssh")
def test_a_rerun_reads_the_same(fairway: Fairway, place: Place) -> None:
    run = kept(fairway, place.name, "echo one > $FAIRWAY_OUTPUT_MODEL/x")
    reader = fairway.job(READ, inputs={"model": {"from": "run", "run": run}}, template="plain")
    first = fairway.submit(reader, "--target", place.name)
    assert fairway.within("wait", first).returncode == 0
    for arguments in ((), ("-s", "env.A=b")):
        again = json.loads(fairway("rerun", first, *arguments, "--json").stdout)["run_id"]
        assert fairway.within("wait", again).returncode == 0
        assert fairway.within("logs", again).stdout == "one\n"
        assert fairway.show(again)["inputs"]["model"]["run"] == run


@pytest.mark.one_engine("ssh")
def test_chained_output_that_was_removed_makes_rerun_fail(fairway: Fairway, place: Place) -> None:
    run = kept(fairway, place.name, "echo one > $FAIRWAY_OUTPUT_MODEL/x")
    reader = fairway.job(READ, inputs={"model": {"from": "run", "run": run}}, template="plain")
    first = fairway.submit(reader, "--target", place.name)
    assert fairway.within("wait", first).returncode == 0
    assert fairway("clean", run, "--yes").returncode == 0
    fairway.refused("rerun", first, says="the input `model` no longer exists")
    assert first in fairway.within("list").stdout
    assert len(json.loads(fairway.within("list", "--json").stdout)) == 1
