"""What a run does on a real Slurm: digits, sweeps, failures, cancelling, time."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Fairway, Gate, Signs

    from fairway_simulator.slurm import SlurmCluster

TARGET = ("--target", "slurm-sim")


@pytest.fixture
def digits(repository: Path, tmp_path: Path) -> Path:
    """The example, copied to the test's folder."""
    return Path(shutil.copytree(repository / "examples" / "digits", tmp_path / "digits"))


def orders(slurm: SlurmCluster, run: str) -> dict[str, Any]:
    """What was asked of Slurm for a run."""
    assert slurm.shared is not None
    found: dict[str, Any] = json.loads((slurm.shared / "runs" / run / "slurm.json").read_text())
    return found


def failed(fairway: Fairway, job: Path, code: int, *arguments: str) -> dict[str, Any]:
    """Runs a job to its end, which must have that exit code; what `show` says of it."""
    done = fairway("submit", job, *TARGET, "--watch", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return fairway.show(json.loads(done.stdout.splitlines()[-1])["run_id"])


@pytest.mark.usefixtures("slurm")
@pytest.mark.nightly
class TestDigits:
    """The example, from a laptop to a cluster, unchanged."""

    @pytest.mark.parametrize(("nodes", "width"), [(1, 2), (3, 1)])
    def test_learns(self, fairway: Fairway, digits: Path, nodes: int, width: int) -> None:
        shape = ("-s", f"nodes={nodes}", "-s", f"processes_per_node={width}")
        epochs = ("-s", "params.epochs=4")
        printed = fairway.watch(digits / "job.yaml", *TARGET, *shape, *epochs)
        [(accuracy, ranks, on)] = re.findall(
            r"done: accuracy=(\S+) .*ranks=(\d+) nodes=(\d+)", printed
        )
        assert float(accuracy) >= 0.95
        assert (int(ranks), int(on)) == (nodes * width, nodes)
        [run] = [each["run_id"] for each in json.loads(fairway.within("list", "--json").stdout)]
        assert fairway.within("fetch", run, "--to", "kept").returncode == 0
        assert (fairway.folder / "kept" / "0" / "model.npz").is_file() or list(
            (fairway.folder / "kept").rglob("model.npz")
        )

    def test_its_sweep_is_one_array(
        self, fairway: Fairway, slurm: SlurmCluster, digits: Path
    ) -> None:
        points = "sweep={max_parallel: 2, points: [{grid: {lr: [0.1, 0.3], momentum: [0.0, 0.9]}}]}"
        small = ("-s", points, "-s", "params.epochs=2")
        run = fairway.submit(digits / "sweep.yaml", *TARGET, *small)
        assert fairway.within("wait", run).returncode == 0
        [part] = orders(slurm, run)["parts"]
        assert part["indices"] == [0, 1, 2, 3]
        assert (
            len(slurm.run("squeue", "-h", "-r", "-t", "all", "-j", part["job"]).splitlines()) == 4
        )
        best = fairway.within("best", run, "--metric", "accuracy", "--max", "--json")
        assert best.returncode == 0, best.stderr
        tasks = fairway.show(run)["task_list"]
        assert max(task["metrics"]["accuracy"] for task in tasks) >= 0.9
        assert fairway.within("report", run, "-o", "report.html").returncode == 0


@pytest.mark.usefixtures("slurm")
class TestEnds:
    """How a task ends, and what is said of it."""

    @pytest.mark.nightly
    def test_a_failing_rank(self, fairway: Fairway) -> None:
        program = (
            "from mpi4py import MPI\nimport sys, time\nworld = MPI.COMM_WORLD\n"
            "world.Barrier()\n"
            "if world.rank == 1:\n    MPI.COMM_WORLD.Abort(9)\n"
            "time.sleep(600)\n"
        )
        (fairway.folder / "rank.py").write_text(program)
        facts = failed(fairway, fairway.job("python rank.py", nodes=2), 9)
        assert facts["task_list"][0]["exit_code"] == 9
        assert facts["task_list"][0]["state"] == "failed"

    def test_the_first_node_that_fails_gives_the_code(self, fairway: Fairway) -> None:
        command = 'if [ "$FAIRWAY_NODE_RANK" = 1 ]; then exit 7; fi; sleep 600'
        job = fairway.job(command, template="every-node", nodes=3)
        assert failed(fairway, job, 7)["state"] == "failed"

    @pytest.mark.nightly
    def test_the_timeout(self, fairway: Fairway) -> None:
        job = fairway.job("sleep 600", template="plain", timeout="1s")
        facts = failed(fairway, job, 124)
        assert facts["task_list"][0]["timed_out"] is True

    def test_a_limit_of_slurms_own(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        job = fairway.job(f"echo up >>{signs}; sleep 600", template="plain", retries=3)
        run = fairway.submit(job, *TARGET)
        signs.lines(1)
        job_id = orders(slurm, run)["parts"][0]["job"]
        # What sbatch's --signal sends when the time is nearly up.
        slurm.run("scancel", "--batch", "--signal=USR1", job_id)
        assert fairway.within("wait", run).returncode == 124
        [task] = fairway.show(run)["task_list"]
        assert (task["timed_out"], task["attempts"]) == (True, 1)

    @pytest.mark.nightly
    def test_cancel_tells_every_node_and_leaves_the_grace(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        command = (
            f"trap 'echo saved >>{signs}; exit 0' USR1; echo up >>{signs};"
            " while :; do sleep 0.05; done"
        )
        checkpoint = {"signal": "USR1", "grace": "20s"}
        job = fairway.job(command, template="every-node", nodes=2, checkpoint=checkpoint)
        run = fairway.submit(job, *TARGET)
        signs.lines(2)
        cancelled = fairway("cancel", run)
        assert cancelled.returncode == 0, cancelled.stderr
        assert sorted(signs.lines(4)) == ["saved", "saved", "up", "up"]
        assert fairway.within("wait", run).returncode == 130
        assert fairway.show(run)["state"] == "cancelled"
        assert slurm.run("squeue", "-h") == ""

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
        assert fairway("cancel", third).returncode == 0
        assert fairway("cancel", second).returncode == 0
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

    @pytest.mark.nightly
    def test_retries_and_then_a_retry_by_hand(self, fairway: Fairway, slurm: SlurmCluster) -> None:
        points = [{"grid": {"x": [0, 1, 2]}}]
        flag = fairway.folder / "fixed"
        command = f"echo attempt $FAIRWAY_ATTEMPT; [ {{{{ params.x }}}} != 1 ] || [ -e {flag} ]"
        job = fairway.job(command, template="plain", retries=1, sweep={"points": points})
        facts = failed(fairway, job, 1)
        run = facts["run_id"]
        assert [task["state"] for task in facts["task_list"]] == [
            "succeeded",
            "failed",
            "succeeded",
        ]
        assert facts["task_list"][1]["attempts"] == 2
        flag.touch()
        again = fairway("retry", run, "--failed")
        assert again.returncode == 0, again.stderr
        assert fairway.within("wait", run).returncode == 0
        facts = fairway.show(run)
        assert [task["attempts"] for task in facts["task_list"]] == [1, 3, 1]
        log = fairway.within("logs", run, "--task", "1").stdout
        assert log.splitlines() == [
            "attempt 0",
            "fairway: attempt 2: the one before ended with exit code 1",
            "attempt 1",
            "fairway: attempt 3: the run was retried",
            "attempt 2",
        ]
        [part] = orders(slurm, run)["parts"]
        assert part["indices"] == [1]
