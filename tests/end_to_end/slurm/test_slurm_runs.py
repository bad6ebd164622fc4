"""Runs on a real Slurm: digits, sweeps, failures, cancelling, time."""

import json
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Signs

from fairway_simulator.slurm import SlurmCluster

TARGET = ("--target", "slurm-sim")


def orders(slurm: SlurmCluster, run: str) -> dict[str, Any]:
    """Record of what was asked of Slurm for a run."""
    return json.loads((slurm.shared / "runs" / run / "control.json").read_text())


def failed(fairway: Fairway, job: Path, code: int, *arguments: str) -> dict[str, Any]:
    """Runs a job to its end, which must have that exit code; what `show` says of it."""
    done = fairway.within("submit", job, *TARGET, "--watch", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return fairway.show(json.loads(done.stdout.splitlines()[-1])["run_id"])


@pytest.mark.usefixtures("slurm")
class TestEnds:
    """Ends of a task, and what is said of them."""

    def test_the_first_node_that_fails_gives_the_code(self, fairway: Fairway) -> None:
        command = 'if [ "$FAIRWAY_NODE_RANK" = 1 ]; then exit 7; fi; sleep 600'
        job = fairway.job(command, template="every-node", nodes=3)
        assert failed(fairway, job, 7)["state"] == "failed"

    def test_limit_of_slurms_own(self, fairway: Fairway, slurm: SlurmCluster, signs: Signs) -> None:
        job = fairway.job(f"echo up >>{signs}; sleep 600", template="plain", retries=3)
        run = fairway.submit(job, *TARGET)
        signs.lines(1)
        job_id = orders(slurm, run)["parts"][0]["job"]
        # What sbatch's --signal sends when the time is nearly up.
        slurm.run("scancel", "--batch", "--signal=USR1", job_id)
        assert fairway.within("wait", run).returncode == 124
        [task] = fairway.show(run)["task_list"]
        assert (task["timed_out"], task["attempts"]) == (True, 1)

    def test_cancel_of_what_waits(self, fairway: Fairway, gate: Gate) -> None:
        first = fairway.submit(
            fairway.job(f"read <{gate.path}", template="plain", nodes=3), *TARGET
        )
        second = fairway.submit(fairway.job("true", template="plain"), *TARGET)
        facts = fairway.show_waiting(second)
        assert (facts["state"], facts["reason"]) == ("queued", "waiting for nodes")
        third = fairway.submit(fairway.job("true", template="plain"), *TARGET)
        facts = fairway.show_waiting(third)
        assert (facts["state"], facts["reason"]) == ("queued", "1 other job comes first")
        assert fairway.within("cancel", third).returncode == 0
        assert fairway.within("cancel", second).returncode == 0
        assert fairway.show(second)["state"] == "cancelled"
        gate.open()
        assert fairway.within("wait", first).returncode == 0

    @pytest.mark.nightly
    def test_the_higher_priority_goes_first(self, fairway: Fairway, gate: Gate) -> None:
        holding = fairway.job(f"read <{gate.path}", template="plain", nodes=3)
        fairway.submit(holding, *TARGET)
        shape = {"template": "plain", "nodes": 3}
        normal = fairway.submit(fairway.job("sleep 0.1", **shape), *TARGET)
        high = fairway.submit(fairway.job("sleep 0.1", priority="high", **shape), *TARGET)
        gate.open()
        for run in (normal, high):
            assert fairway.within("wait", run).returncode == 0
        assert fairway.show(high)["ended"] <= fairway.show(normal)["started"]
