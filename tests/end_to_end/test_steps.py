"""Runs of several steps on this machine, also when commands are killed."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate
from programs import finished

KILLS = 14

# The program, which kills itself with SIGKILL before it changes a file or starts a program for the
# N-th time. If it is not killed, it writes how often it did so.
KILLED = """
import os, signal, sys
left = [int(sys.argv[1])]
EVENTS = {"os.rename", "os.mkdir", "os.symlink", "os.remove", "os.rmdir", "subprocess.Popen"}
def hook(event, arguments):
    if event in EVENTS:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.argv = ["fairway", *sys.argv[2:]]
from fairway_cli.main import main
try:
    main()
finally:
    with open("events", "w") as file:
        file.write(str(-left[0]))
"""


def write(fairway: Fairway, named: Any, **common: Any) -> Path:
    """Writes a file of steps."""
    file = fairway.folder / "steps.yaml"
    file.write_text(json.dumps({"name": "pipe", "template": "plain", "steps": named, **common}))
    return file


def states(fairway: Fairway, run: str) -> dict[str, str]:
    """Returns the state of each step, by its name."""
    return {each["params"]["step"]: each["state"] for each in fairway.show(run)["task_list"]}


def test_steps_start_when_their_predecessors_have_ended(fairway: Fairway) -> None:
    kept = "echo {{ params.x }} > $FAIRWAY_OUTPUT_MODEL/m"
    named = {
        "data": {"command": "echo data > $FAIRWAY_OUTPUT_DATA/d", "outputs": {"data": {}}},
        "train": {
            "after": "data",
            "inputs": {"data": {"from": "step", "step": "data"}},
            "command": f"cat $FAIRWAY_INPUT_DATA/d && echo loss={{{{ params.x }}}} && {kept}",
            "sweep": {"points": {"grid": {"x": [3, 1, 2]}}},
            "outputs": {"model": {}},
            "metrics": {"loss": "loss=(.)"},
            "finally": {"command": "echo all of them"},
        },
        "score": {
            "after": {"train": "succeeded"},
            "inputs": {"model": {"best": {"step": "train", "metric": "loss"}}},
            "command": "tee $FAIRWAY_OUTPUT_BEST/b < $FAIRWAY_INPUT_MODEL/m",
            "outputs": {"best": {}},
        },
    }
    done = fairway.ok("submit", write(fairway, named), "--run-id", "pipe-a", "--watch")
    assert [line.split()[0] for line in done.splitlines()[1:4]] == ["[0]", "[1]", "[2]"]
    facts = fairway.show("pipe-a")
    assert (facts["state"], facts["target"], facts["tasks"]) == ("succeeded", "local", 3)
    assert fairway.within("logs", "pipe-a", "--task", "score").stdout == "1\n"
    assert "4 tasks: fairway logs pipe-a-train" in fairway.within("logs", "pipe-a").stdout
    assert "all of them" in fairway.within("logs", "pipe-a-train").stdout
    assert fairway.show("pipe-a-score")["inputs"]["model"]["task"] == "1"
    assert fairway.within("fetch", "pipe-a", "--to", "all").returncode == 0
    assert (fairway.folder / "all/score/0/best/b").read_text() == "1\n"
    assert (fairway.folder / "all/train/2/model/m").read_text() == "2\n"
    assert fairway.within("fetch", "pipe-a", "--task", "score", "--to", "one").returncode == 0
    assert [path.name for path in (fairway.folder / "one").iterdir()] == ["score"]
    listed = json.loads(fairway.within("list", "--json").stdout)
    assert [run["run_id"] for run in listed] == [
        *("pipe-a", "pipe-a-data", "pipe-a-train", "pipe-a-score")
    ]
    fairway.ok("rerun", "pipe-a-score", "-s", "env.A=1", "--watch")
    changed = write(fairway, {**named, "data": {**named["data"], "command": "true"}})
    for words, why in (
        (("submit", changed, "--run-id", "pipe-a"), "the run `pipe-a` is of another job"),
        (("rerun", "pipe-a"), "pipe-a has several steps, and cannot be rerun as a whole"),
        (("exec", "pipe-a", "--", "x"), "pipe-a"),
        (
            (
                "submit",
                fairway.job(
                    "x", "chain.yaml", inputs={"x": {"from": "run", "run": "pipe-a", "task": 0}}
                ),
            ),
            "task 0 of pipe-a keeps no output `x`",
        ),
        (
            ("submit", fairway.job("x", after=["pipe-a"]), "--target", "local"),
            "pipe-a is a run of several steps",
        ),
    ):
        fairway.refused(*words, says=why)


@pytest.mark.nightly
def test_steps_can_be_submitted_from_python(fairway: Fairway) -> None:
    named = {"one": {"command": "exit 3"}, "two": {"command": "true", "after": {"one": "failed"}}}
    program = (
        "import sys, fairway_hpc\n"
        "run = fairway_hpc.submit(sys.argv[1], run_id='pipe-a', tags=['night'])\n"
        "run.wait()\n"
        "print(run.state, run.exit_code, *run.tags, *(task.state for task in run.tasks))\n"
    )
    done = finished([sys.executable, "-c", program, write(fairway, named)], cwd=fairway.folder)
    assert done.stdout.split() == ["failed", "3", "night", "failed", "succeeded"], done.stderr


_NOT_THERE = [
    ({"from": "step", "step": "train"}, "task 0 of pipe-a-train has kept no file in `model`"),
    (
        {"best": {"step": "train", "metric": "loss"}},
        "no task of pipe-a-train that succeeded has printed `loss`; its pattern is: loss=(.)",
    ),
]


@pytest.mark.parametrize(("setup", "first"), [(None, "task 0"), ("true", "the setup")])
@pytest.mark.parametrize(("model", "why"), _NOT_THERE)
def test_steps_with_a_missing_input_fail_with_the_reason(
    fairway: Fairway, model: Any, why: str, setup: str | None, first: str
) -> None:
    """The model that the step needs was not kept, which was unknown at its submission."""
    submitted = fairway.folder / ".fairway" / "runs" / "pipe-a-score" / "run.json"
    named = {
        "train": {
            "command": f"until [ -e {submitted} ]; do sleep 0.1; done",
            "outputs": {"model": {}},
            "metrics": {"loss": "loss=(.)"},
        },
        "score": {"command": "true", "after": "train", "inputs": {"model": model}},
    }
    named["score"] |= {} if setup is None else {"setup": setup}
    done = fairway.within("submit", write(fairway, named), "--run-id", "pipe-a", "--watch")
    assert done.returncode == 5
    reason = f"the step score failed with exit code 5: {first} was not started: {why}"
    assert fairway.show("pipe-a")["reason"] == reason


def test_steps_are_all_cancelled_with_their_run(fairway: Fairway, gate: Gate) -> None:
    named: dict[str, Any] = {
        "hold": {"command": f"read -r _ <{gate.path}"},
        "next": {"command": "true", "after": "hold"},
        "last": {
            "command": "true",
            "after": "next",
            "inputs": {"m": {"from": "step", "step": "hold"}},
        },
    }
    named["hold"] |= {"outputs": {"m": {}}}
    said = fairway.within("submit", write(fairway, named), "--run-id", "pipe-a").stdout
    refused = fairway.within("fetch", "pipe-a", "--task", "last")
    assert (refused.returncode, " the step last" in refused.stderr) == (2, True)
    assert "this machine has to stay on to begin: last, by: fairway wait pipe-a" in said
    assert states(fairway, "pipe-a") == {"hold": "running", "next": "queued", "last": "queued"}
    why = [each["reason"] for each in fairway.show("pipe-a")["task_list"]]
    assert why == [None, "waiting for hold", "waiting for next"]
    clean = fairway.within("clean", "pipe-a-hold", "--yes")
    assert clean.returncode == 2
    assert fairway.within("cancel", "pipe-a").stdout == "pipe-a cancelled\n"
    assert set(states(fairway, "pipe-a").values()) == {"cancelled"}
    assert fairway.within("wait", "pipe-a").returncode == 130
    assert fairway.show("pipe-a-hold")["state"] == "cancelled"


@pytest.mark.nightly
def test_steps_submitted_twice_with_one_run_id_run_once(fairway: Fairway) -> None:
    named = {"one": {"command": f"echo one >>{fairway.folder}/ran"}}
    for _ in range(2):
        fairway.ok("submit", write(fairway, named), "--run-id", "pipe-a", "--watch")
    assert (fairway.folder / "ran").read_text() == "one\n"


@pytest.mark.timeout(3600)
@pytest.mark.nightly
def test_steps_run_exactly_once_though_submit_is_killed_at_any_moment(fairway: Fairway) -> None:
    """The command that submits and follows the run is killed; submitting again continues it."""
    (fairway.folder / "killed.py").write_text(KILLED)
    note = "echo {{ name }} >>$FAIRWAY_OUTPUT_NOTES/ran; cat $FAIRWAY_OUTPUT_NOTES/ran >>"

    def words(run: str) -> list[str]:
        ran = fairway.folder / f"{run}.txt"
        named = {
            "first": {"command": f"{note}{ran}", "outputs": {"notes": {}}},
            "second": {
                "command": f"{note}{ran}",
                "outputs": {"notes": {}},
                "after": "first",
                "inputs": {"notes": {"from": "step", "step": "first"}},
            },
        }
        return ["submit", str(write(fairway, named)), "--run-id", run, "--watch", "--quiet"]

    def program(left: int, run: str) -> int:
        command = [sys.executable, "killed.py", str(left), *words(run)]
        ended = finished(command, cwd=fairway.folder)
        return ended.returncode

    assert program(0, "whole") == 0
    events = int((fairway.folder / "events").read_text())
    assert events > KILLS
    killed = 0
    for number in range(KILLS):
        run = f"killed-{number}"
        killed += program(1 + number * events // KILLS, run) == -signal.SIGKILL
        again = fairway(*words(run))
        assert again.returncode == 0, (number, again.stdout, again.stderr)
        ran = (fairway.folder / f"{run}.txt").read_text().split()
        assert ran == ["pipe-first", "pipe-second"], number
    assert killed >= KILLS - 2
