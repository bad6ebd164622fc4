"""Several tasks on one node: each has its own of the eight GPUs of a fake `nvidia-smi`. They report
their resources through a pipe and wait at a gate, so that the test knows which run at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Place, Signs
from waiting import until

# A task reports its resources twice: `up` when it starts, and `down` before it ends.
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


# A run on an ssh cluster holds whole nodes.
SHARED = pytest.mark.parametrize("node", ["local", "slurm", "batch", "kubernetes"], indirect=True)


def sweep(fairway: Fairway, signs: Signs, gate: Gate, tasks: int, **fields: Any) -> Path:
    """Writes a job of `tasks` tasks."""
    (fairway.folder / "program.py").write_text(PROGRAM)
    points = {"points": {"grid": {"x": list(range(tasks))}}}
    command = f"python3 program.py {signs} {gate.path} {{{{ params.x }}}}"
    return fairway.job(command, template="plain", sweep=points, **fields)


def said(signs: Signs, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the lines of the tasks: `up` or `down`, and the task's resources."""
    lines = [line.partition(" ") for line in signs.lines(count)]
    return [(word, json.loads(facts)) for word, _, facts in lines]


# A stand-in's nodes have no topology file, and each rank would report that.
NO_TOPOLOGY = {"NCCL_TOPO_FILE": "/dev/null"}


def _running(fairway: Fairway, run: str) -> list[str]:
    """Returns the GPUs of each running task."""
    tasks = fairway.show(run)["task_list"]
    return [task["gpus"] for task in tasks if task["state"] == "running"]


def test_gpus_of_a_node_go_to_one_task_each_and_then_to_the_next(
    fairway: Fairway, node: Place, signs: Signs, gate: Gate
) -> None:
    """Eight of twelve tasks run at a time and share no resource. The ninth starts as soon as one of
    them has ended, on its GPU, and so on."""
    run = fairway.submit(sweep(fairway, signs, gate, 12, gpus=1), "--target", node.name)
    first = said(signs, 8)
    assert [word for word, _ in first] == ["up"] * 8
    assert sorted(has["FAIRWAY_GPUS"] for _, has in first) == list("01234567")
    # A pod's programs run before its node reports it as running.
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
    if node.engine != "kubernetes":  # each pod has its own address with all ports
        own.append("FAIRWAY_PORTS")
    for word, has in lines:
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            # A container on Kubernetes has only its own GPUs, numbered from 0.
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
def test_gpus_of_a_node_are_shared_by_several_runs(
    fairway: Fairway, node: Place, signs: Signs, gate: Gate
) -> None:
    """A second run gets the GPUs that the first leaves; a third waits until another run ends."""
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


IDLE = {"below": 5, "for": "1s"}
WHY = "its GPUs were below 5 % for 1s"


@pytest.mark.one_engine("local")
def test_gpus_that_are_idle_end_their_run_with_exit_code_124(
    fairway: Fairway, node: Place, smi: Path, signs: Signs
) -> None:
    """It is not retried, though it has attempts left."""
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
    lines = fairway.within("logs", facts["run_id"]).stdout.splitlines()
    assert lines[:2] == ["up", f"fairway: {WHY}"]
