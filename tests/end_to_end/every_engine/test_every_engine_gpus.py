"""Several tasks on one node: each has its own GPU, whatever else is there.

The node has eight GPUs by a program `nvidia-smi` of the test's own. Tasks say through a pipe what
they have, and wait at a gate, so that it is known which of them run at the same time.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Place, Signs
from waiting import until

# What a task says: `up` with all that it has, and `down` before it ends.
PROGRAM = """
import json, os, sys
names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "FAIRWAY_GPUS",
         "FAIRWAY_CORES", "FAIRWAY_PORTS", "FAIRWAY_MAIN_PORT", "FAIRWAY_SCRATCH_DIR")
has = {name: os.environ.get(name) for name in names}
has |= {"task": os.environ["FAIRWAY_TASK"], "cores": sorted(os.sched_getaffinity(0))}
has["scratch"] = os.listdir(has["FAIRWAY_SCRATCH_DIR"])
open(os.path.join(has["FAIRWAY_SCRATCH_DIR"], "mine"), "w").close()
def say(line):
    pipe = os.open(sys.argv[1], os.O_WRONLY)
    os.write(pipe, line.encode() + b"\\n")
    os.close(pipe)
say("up " + json.dumps(has))
os.read(os.open(sys.argv[2], os.O_RDONLY), 3)
assert os.listdir(has["FAIRWAY_SCRATCH_DIR"]) == ["mine"]
say("down " + json.dumps(has))
"""


HERE = pytest.mark.parametrize("node", ["local"], indirect=True)
# A run on an ssh cluster holds whole nodes.
SHARED = pytest.mark.parametrize("node", ["local", "slurm", "batch", "kubernetes"], indirect=True)


def sweep(fairway: Fairway, signs: Signs, gate: Gate, tasks: int, **fields: Any) -> Path:
    """A job of `tasks` tasks."""
    (fairway.folder / "program.py").write_text(PROGRAM)
    points = {"points": {"grid": {"x": list(range(tasks))}}}
    command = f"python3 program.py {signs} {gate.path} {{{{ params.x }}}}"
    return fairway.job(command, template="plain", sweep=points, **fields)


def said(signs: Signs, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Lines of the tasks: what each did, and what it has."""
    lines = [line.partition(" ") for line in signs.lines(count)]
    return [(word, json.loads(facts)) for word, _, facts in lines]


# A stand-in's nodes have no file of it, of which each rank would say so.
NO_TOPOLOGY = {"NCCL_TOPO_FILE": "/dev/null"}


def _running(fairway: Fairway, run: str) -> list[str]:
    """The GPUs of each task that runs."""
    tasks = fairway.show(run)["task_list"]
    return [task["gpus"] for task in tasks if task["state"] == "running"]


def test_twelve_tasks_of_one_gpu_on_a_node_of_eight(
    fairway: Fairway, node: Place, signs: Signs, gate: Gate
) -> None:
    """Eight at a time, none of which has what another has. The ninth begins when one of them has
    ended, on its GPU, and so on: none waits until all eight have ended."""
    job = sweep(fairway, signs, gate, 12, gpus=1)
    run = fairway.submit(job, "--target", node.name)
    first = said(signs, 8)
    assert [word for word, _ in first] == ["up"] * 8
    assert sorted(has["FAIRWAY_GPUS"] for _, has in first) == list("01234567")
    # A pod's programs run before its node says so.
    until(lambda: sorted(_running(fairway, run)) == list("01234567"))
    assert "GPUS" in fairway.within("show", run).stdout
    gate.open()
    (down, ended), (up, ninth) = said(signs, 10)[8:]
    assert (down, up) == ("down", "up")
    assert ninth["FAIRWAY_GPUS"] == ended["FAIRWAY_GPUS"]
    gate.open(3)
    assert sorted(word for word, _ in said(signs, 16)[10:]) == ["down"] * 3 + ["up"] * 3
    gate.open(8)
    lines = said(signs, 24)
    assert fairway.within("wait", run).returncode == 0
    busy: dict[str, str] = {}
    most = 0
    own = ["FAIRWAY_GPUS", "FAIRWAY_SCRATCH_DIR"]
    if node.engine != "kubernetes":  # pods have addresses of their own, and all ports of these
        own.append("FAIRWAY_PORTS")
    for word, has in lines:
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            # A container on Kubernetes has no others, and counts its own anew.
            assert has[name] == ("0" if node.engine == "kubernetes" else has["FAIRWAY_GPUS"])
        assert has["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert has["scratch"] == [], "a folder of its own"
        port, ports = int(has["FAIRWAY_MAIN_PORT"]), has["FAIRWAY_PORTS"].split("-")
        assert int(ports[0]) <= port <= int(ports[1])
        for thing in (has[name] for name in own):
            if word == "up":
                assert thing not in busy, f"{has} while {busy}"
                busy[thing] = has["task"]
            else:
                assert busy.pop(thing) == has["task"]
        most = max(most, len(busy))
    assert most == 8 * len(own)
    assert not busy
    ended = fairway.show(run)
    assert {task["state"] for task in ended["task_list"]} == {"succeeded"}
    assert all(task["gpus"] for task in ended["task_list"])


@SHARED
@pytest.mark.one_engine("local")
def test_two_runs_share_the_node(fairway: Fairway, node: Place, signs: Signs, gate: Gate) -> None:
    """The second has what the first leaves, says what it waits for, and one more when that ends."""
    fairway.submit(sweep(fairway, signs, gate, 1, gpus=6), "--target", node.name)
    assert said(signs, 1)[0][1]["FAIRWAY_GPUS"] == "0,1,2,3,4,5"
    fairway.submit(sweep(fairway, signs, gate, 1, gpus=2), "--target", node.name)
    assert said(signs, 2)[1][1]["FAIRWAY_GPUS"] == "6,7"
    third = fairway.submit(sweep(fairway, signs, gate, 1, gpus=1), "--target", node.name)
    waits = fairway.show_waiting(third)
    assert waits["state"] == "queued"
    if node.engine == "local":  # elsewhere the service has a queue of its own
        assert "waits for 1 GPU of" in waits["reason"]
    gate.open()
    *_, (word, has) = said(signs, 4)
    assert (word, has["FAIRWAY_GPUS"]) in (("up", "0"), ("up", "6"))
    gate.open(2)
    assert fairway.within("wait", third).returncode == 0


@HERE
def test_a_supervisor_that_is_killed_holds_nothing(
    fairway: Fairway, node: Place, signs: Signs, gate: Gate
) -> None:
    """The next run has its GPUs once its tasks are gone."""
    run = fairway.submit(sweep(fairway, signs, gate, 8, gpus=1), "--target", node.name)
    said(signs, 8)
    os.kill(fairway.record(run)["supervisor"], signal.SIGKILL)
    second = fairway.submit(sweep(fairway, signs, gate, 1, gpus=8), "--target", node.name)
    *_, (word, has) = said(signs, 9)
    assert (word, has["FAIRWAY_GPUS"]) == ("up", "0,1,2,3,4,5,6,7")
    gate.open()
    assert fairway.within("wait", second).returncode == 0


IDLE = {"below": 5, "for": "1s"}
WHY = "its GPUs were below 5 % for 1s"


@pytest.mark.one_engine("local")
def test_a_run_whose_gpus_do_nothing_is_ended(
    fairway: Fairway, node: Place, smi: Path, signs: Signs
) -> None:
    """The attempts that it has left change nothing."""
    (smi / "idle").touch()
    held = f"echo up; exec 9>{signs}; sleep 600"
    fields = {"retries": 3, "sample_every": "0.5s", "idle_gpu": IDLE, "env": NO_TOPOLOGY}
    job = fairway.job(held, template="plain", **fields)
    done = fairway.within("submit", job, "--target", node.name, "--watch", "--json")
    assert done.returncode == 124, done.stderr
    facts = fairway.show(json.loads(done.stdout)["run_id"])
    assert (facts["state"], facts["reason"]) == ("failed", WHY)
    [task] = facts["task_list"]
    assert (task["exit_code"], task["reason"], task["attempts"]) == (124, WHY, 1)
    assert fairway.within("logs", facts["run_id"]).stdout.splitlines()[:2] == [
        "up",
        f"fairway: {WHY}",
    ]
