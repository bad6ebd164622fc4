"""Runs of several steps on every engine, whose commands and servers are killed."""

import json
import re
import signal
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from program import Fairway, Gate, Place
from waiting import until

from fairway_runner.runs.store import Run


@pytest.mark.timeout(1800)
@pytest.mark.one_engine("local")
def test_steps_of_the_pipeline_example_succeed_though_submit_is_killed(
    fairway: Fairway, place: Place, repository: Path
) -> None:
    job = repository / "examples/pipeline/pipeline.yaml"
    run = place.new_id("pipe")
    words = ["--target", place.name, "--run-id", run, "-s", "steps.train.params.epochs=2"]
    # No more ranks at a time than this machine has cores, on any target.
    words += ["-s", "steps.train.sweep.max_parallel=1", "-s", "steps.train.template=plain"]
    watching = fairway.start("submit", job, *words, "--watch")
    _until_begun(fairway, f"{run}-train", watching)
    runs = fairway.folder / ".fairway" / "runs"
    watching.send_signal(signal.SIGKILL)
    watching.wait()
    done = fairway.within("wait", run)
    assert done.returncode == 0, fairway.within("show", run).stdout + done.stderr
    found = [
        (each["params"]["step"], each["state"], each["attempts"]) for each in facts(fairway, run)
    ]
    assert found == [(step, "succeeded", 1) for step in ("images", "train", "score")]
    known = {folder.name for folder in runs.iterdir() if not folder.name.startswith(".")}
    assert known == {run, f"{run}-images", f"{run}-train", f"{run}-score"}
    for step, count in (("train", 3), ("score", 4)):
        assert [each["state"] for each in facts(fairway, f"{run}-{step}")] == ["succeeded"] * count
    best: dict[str, Any] = fairway.show(f"{run}-score")["inputs"]["model"]
    said = fairway.within("logs", f"{run}-score", "--task", "finally").stdout
    assert re.findall(r"accuracy=(\S+) images=359", said) == [f"{best['value']:.3f}"]
    assert Run(runs / f"{run}-score").record.target == place.name
    fetched = fairway.within("fetch", run, "--task", "score", "--to", "got")
    assert fetched.returncode == 0, fetched.stderr
    table = (fairway.folder / "got/score/finally/table/names.csv").read_text()
    assert len(table.splitlines()) == 359


def test_steps_start_by_themselves_and_a_retry_repeats_unfinished_ones_only(
    fairway: Fairway, place: Place, gate: Gate
) -> None:
    """On a target that cannot order runs, submit reports that this machine has to stay on."""
    named = {
        "first": {"command": f"read -r _ <{gate.path}; echo 1 >$FAIRWAY_OUTPUT_ONE/one"},
        "second": {
            "after": "first",
            "command": f"cat $FAIRWAY_INPUT_ONE/one; test -e {gate.path}.fixed || exit 3",
        },
        "third": {"after": "second", "command": "echo third"},
        "repair": {"after": {"second": {"exit_code": [3, 4]}}, "command": "echo repair"},
        "other": {"after": {"first": "ended", "second": {"exit_code": 4}}, "command": "true"},
        "last": {"after": {"third": "ended", "repair": "ended"}, "command": "echo last"},
    }
    file, run = fairway.folder / "steps.json", place.new_id("steps")
    kept = {"first": {"outputs": {"one": {}}}}
    kept["second"] = {"inputs": {"one": {"from": "step", "step": "first"}}}
    steps = {name: {**step, **kept.get(name, {})} for name, step in named.items()}
    file.write_text(json.dumps({"name": "steps", "template": "plain", "steps": steps}))
    done = fairway.ok("submit", file, "--target", place.name, "--run-id", run)
    gate.open()
    if place.engine == "batch":
        assert "this machine has to stay on to begin: second, third, repair, other, last" in done
    else:
        assert "its steps begin by themselves" in done
        assert fairway.within("wait", f"{run}-second").returncode == 3
        assert fairway.within("logs", f"{run}-second").stdout == "1\n"
        assert fairway.within("wait", f"{run}-third").returncode == 130
        assert fairway.within("wait", f"{run}-other").returncode == 130
        assert fairway.within("wait", f"{run}-last").returncode == 0
    assert fairway.within("wait", run).returncode == 3
    found = {each["params"]["step"]: each for each in facts(fairway, run)}
    left_out = {name: each["reason"] for name, each in found.items() if not each["attempts"]}
    assert left_out == dict.fromkeys(("third", "other"), "left out: second failed with exit code 3")
    ended = {name: each["state"] for name, each in found.items() if name not in left_out}
    assert ended == dict.fromkeys(("first", "repair", "last"), "succeeded") | {"second": "failed"}
    ended = fairway.show(run)["ended"]
    gate.path.with_name(f"{gate.path.name}.fixed").touch()
    fairway.ok("retry", run)
    if place.engine != "batch":
        assert fairway.within("wait", f"{run}-third").returncode == 0
    assert fairway.within("wait", run).returncode == 0
    assert fairway.show(run)["started"] >= ended, "it is that of the retry"
    found = {each["params"]["step"]: each for each in facts(fairway, run)}
    assert found.pop("other")["reason"] == "left out: second succeeded"
    assert {each["state"] for each in found.values()} == {"succeeded"}
    for name in ("first", "repair", "last"):  # nothing that has succeeded runs twice
        runs = fairway.show(f"{run}-{name}")["task_list"]
        assert [each["attempts"] for each in runs] == [1], name


def _trained(gate: Gate) -> dict[str, Any]:
    """Returns a sweep of two tasks that wait at the gate; the second task is the better one."""
    return {
        "command": f"read -r _ <{gate.path}; echo accuracy={{{{ params.x }}}}"
        " | tee $FAIRWAY_OUTPUT_MODEL/m",
        "params": {"x": 0},
        "sweep": {"points": {"grid": {"x": [1, 2]}}},
        "outputs": {"model": {}},
        "metrics": {"accuracy": "accuracy=([0-9]+)"},
    }


_BEST, _SHOW = {"best": {"step": "train", "metric": "accuracy"}}, "cat $FAIRWAY_INPUT_MODEL/m"


def _serving(fairway: Fairway) -> Popen[str]:
    """Starts `fairway serve` in the project and returns it once it is ready."""
    server = fairway.start("serve", "--socket", fairway.folder / "page.sock")
    assert server.stdout.readline().startswith("ready: ")
    return server


@pytest.mark.one_engine("local")
def test_steps_that_the_target_cannot_start_are_started_by_serve(
    fairway: Fairway, place: Place, gate: Gate
) -> None:
    """No command follows the run and nobody opens its page; the server is killed, and another one
    continues."""
    named = {
        "data": {"command": "touch $FAIRWAY_OUTPUT_D/d", "outputs": {"d": {}}},
        "train": {"after": "data", **_trained(gate)},
        "score": {
            "after": "train",
            # `score` waits only for `train`, which does not guarantee that `d` exists.
            "inputs": {"model": _BEST, "d": {"from": "step", "step": "data"}},
            "command": _SHOW,
        },
        "report": {"after": {"score": "ended"}, "command": "echo report"},
    }
    file, run = fairway.folder / "steps.json", place.new_id("served")
    file.write_text(json.dumps({"name": "served", "template": "plain", "steps": named}))
    done = fairway.within("submit", file, "--target", place.name, "--run-id", run)
    assert f"score, report, by: fairway wait {run}, or fairway serve\n" in done.stdout
    server = _serving(fairway)
    gate.open(2)
    _until_begun(fairway, f"{run}-score", server)
    server.send_signal(signal.SIGKILL)  # amid the submission of that step
    server.wait()
    server = _serving(fairway)
    _until_begun(fairway, f"{run}-report", server)
    assert fairway.within("wait", f"{run}-report").returncode == 0  # which begins no other step
    assert fairway.within("logs", f"{run}-score").stdout == "accuracy=2\n"
    assert fairway.within("wait", run).returncode == 0
    for name, tasks in (("train", 2), ("score", 1), ("report", 1)):
        known = fairway.show(f"{run}-{name}")["task_list"]
        assert [(each["state"], each["attempts"]) for each in known] == [("succeeded", 1)] * tasks


def _until_begun(fairway: Fairway, run: str, server: Popen[str]) -> None:
    """Waits until the program has recorded a run, which nothing else would do."""
    record = fairway.folder / ".fairway/runs" / run / "run.json"
    until(lambda: record.exists() or server.poll() is not None)
    assert server.poll() is None, server.communicate()


def facts(fairway: Fairway, run: str) -> list[dict[str, Any]]:
    """Returns the facts of each step."""
    return fairway.show(run)["task_list"]
