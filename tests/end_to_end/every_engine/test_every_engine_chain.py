"""Runs that read the outputs of other runs, on every engine."""

import json
from typing import Any

import pytest
from program import Fairway, Place

READ = 'find "$FAIRWAY_INPUT_MODEL/" -type f -print0 | sort -z | xargs -0 cat'


def kept(fairway: Fairway, target: str, command: str) -> str:
    """Runs a command on the target and returns the run, which has kept its output `model`."""
    outputs = {"model": {}, "other": {"when": "failure"}}
    job = fairway.job(command, template="plain", outputs=outputs)
    run = fairway.submit(job, "--target", target)
    assert fairway.within("wait", run).returncode == 0
    return run


def read(fairway: Fairway, target: str, source: Any) -> tuple[str, dict[str, Any]]:
    """Returns the text that a run reads from an input of that source, and the input in `show`."""
    job = fairway.job(READ, template="plain", inputs={"model": source})
    run = fairway.submit(job, "--target", target)
    assert fairway.within("wait", run).returncode == 0, fairway.within("logs", run).stdout
    return fairway.within("logs", run).stdout, fairway.show(run)["inputs"]["model"]


@pytest.mark.one_engine("ssh")
def test_chained_input_reads_the_output_of_a_run_on_any_target(
    fairway: Fairway, place: Place
) -> None:
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
    newest = json.loads(fairway.within("list", "--json").stdout)[-1]["run_id"]
    assert f"input   model: model of task 0 of {there}" in fairway.within("show", newest).stdout


@pytest.mark.one_engine("ssh")
def test_chained_input_is_the_same_in_a_rerun_until_its_run_is_cleaned(
    fairway: Fairway, place: Place
) -> None:
    run = kept(fairway, place.name, "echo one > $FAIRWAY_OUTPUT_MODEL/x")
    reader = fairway.job(READ, inputs={"model": {"from": "run", "run": run}}, template="plain")
    first = fairway.submit(reader, "--target", place.name)
    assert fairway.within("wait", first).returncode == 0
    for arguments in ((), ("-s", "env.A=b")):
        again = json.loads(fairway.within("rerun", first, *arguments, "--json").stdout)["run_id"]
        assert fairway.within("wait", again).returncode == 0
        assert fairway.within("logs", again).stdout == "one\n"
        assert fairway.show(again)["inputs"]["model"]["run"] == run
    assert fairway.within("clean", run, "--yes").returncode == 0
    fairway.refused("rerun", first, says="the input `model` no longer exists")
    assert len(json.loads(fairway.within("list", "--json").stdout)) == 3
