"""Runs on a real Slurm: failures, time limits, queueing, cancelling, priorities."""

import json
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Signs

from fairway_simulator.slurm import SlurmCluster

TARGET = ("--target", "slurm-sim")


def orders(slurm: SlurmCluster, run: str) -> dict[str, Any]:
    """Returns the record of what Slurm was asked to do for a run."""
    return json.loads((slurm.shared / "runs" / run / "control.json").read_text())


def failed(fairway: Fairway, job: Path, code: int, *arguments: str) -> dict[str, Any]:
    """Runs a job that must end with that exit code, and returns its facts from `show`."""
    done = fairway.within("submit", job, *TARGET, "--watch", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return fairway.show(json.loads(done.stdout.splitlines()[-1])["run_id"])


@pytest.mark.usefixtures("slurm")
class TestEnds:
    """Ends of a task and of its waiting, and the reasons shown."""

    def test_slurm_run_ends_with_the_exit_code_of_the_first_node_that_fails(
        self, fairway: Fairway
    ) -> None:
        command = 'if [ "$FAIRWAY_NODE_RANK" = 1 ]; then exit 7; fi; sleep 600'
        job = fairway.job(command, template="every-node", nodes=3)
        assert failed(fairway, job, 7)["state"] == "failed"

    def test_slurm_node_that_saves_after_another_has_failed_has_the_grace_of_its_job(
        self, fairway: Fairway
    ) -> None:
        command = (
            'ready=$FAIRWAY_SHARED_DIR/ready; if [ "$FAIRWAY_NODE_RANK" = 0 ]; then'
            " until [ -e $ready ]; do sleep 0.05; done; exit 7; fi;"
            # Longer than Slurm's KillWait here.
            "trap 'trap : TERM; sleep 6; echo saved; exit 3' TERM; touch $ready;"
            "while :; do sleep 0.05; done"
        )
        job = fairway.job(command, template="every-node", nodes=2)
        assert (task := failed(fairway, job, 7))["state"] == "failed"
        assert "saved" in fairway.within("logs", task["run_id"], "--grep", "^saved").stdout

    @pytest.mark.nightly
    def test_slurm_node_that_does_not_end_after_another_has_failed_is_killed_after_its_grace(
        self, fairway: Fairway, signs: Signs
    ) -> None:
        command = (
            'if [ "$FAIRWAY_NODE_RANK" = 0 ]; then exit 7; fi;'
            f"trap 'echo told >>{signs}' TERM; while :; do sleep 0.05; done"
        )
        job = fairway.job(command, template="every-node", nodes=2)
        assert failed(fairway, job, 7)["state"] == "failed"
        assert signs.lines(1)[0] == "told"

    def test_slurm_run_over_the_time_limit_of_its_job_ends_with_exit_code_124(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        job = fairway.job(f"echo up >>{signs}; sleep 600", template="plain", retries=3)
        run = fairway.submit(job, *TARGET)
        signs.lines(1)
        job_id = orders(slurm, run)["parts"][0]["job"]
        # The signal that sbatch's --signal sends shortly before the time limit.
        slurm.run("scancel", "--batch", "--signal=USR1", job_id)
        assert fairway.within("wait", run).returncode == 124
        [task] = fairway.show(run)["task_list"]
        assert (task["timed_out"], task["attempts"]) == (True, 1)

    def test_slurm_run_that_is_queued_reports_why_and_can_be_cancelled(
        self, fairway: Fairway, gate: Gate
    ) -> None:
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
    def test_slurm_run_with_higher_priority_starts_first(
        self, fairway: Fairway, gate: Gate
    ) -> None:
        holding = fairway.job(f"read <{gate.path}", template="plain", nodes=3)
        fairway.submit(holding, *TARGET)
        shape = {"template": "plain", "nodes": 3}
        normal = fairway.submit(fairway.job("sleep 0.1", **shape), *TARGET)
        high = fairway.submit(fairway.job("sleep 0.1", priority="high", **shape), *TARGET)
        gate.open()
        for run in (normal, high):
            assert fairway.within("wait", run).returncode == 0
        assert fairway.show(high)["ended"] <= fairway.show(normal)["started"]
