"""Runs on a real Slurm survive requeues, dead nodes, killed commands and cut connections."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Signs
from waiting import PATIENCE, until

from fairway_simulator.slurm import SlurmCluster

TARGET = ("--target", "slurm-sim")

# Counts in its checkpoint and ends when it has counted to 2, so it takes at least two attempts. On
# SIGTERM it exits with 0.
COUNTS = (
    "count=$(cat $FAIRWAY_CHECKPOINT_DIR/count 2>/dev/null || echo 0);"
    " echo $((count + 1)) >$FAIRWAY_CHECKPOINT_DIR/count;"
    " echo attempt=$FAIRWAY_ATTEMPT count=$count >>{signs};"
    " echo attempt=$FAIRWAY_ATTEMPT count=$count;"
    " [ $count -gt 0 ] || {{ trap 'exit 0' TERM; sleep 600 & wait; }}"
)


def job_of(slurm: SlurmCluster, run: str) -> str:
    """Returns Slurm's id of the run's first job."""
    orders = json.loads((slurm.shared / "runs" / run / "control.json").read_text())
    return str(orders["parts"][0]["job"])


def outcome(fairway: Fairway, run: str, code: int = 0) -> dict[str, Any]:
    """Waits for the run to end with that exit code, and returns its facts from `show`."""
    waited = fairway.within("wait", run)
    assert waited.returncode == code, (
        waited.stdout + waited.stderr + fairway.within("logs", run).stdout
    )
    return fairway.show(run)


class TestAgain:
    """A task that restarts continues from its checkpoint and counts its attempts."""

    def test_slurm_task_continues_from_its_checkpoint_after_requeue(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        run = fairway.submit(fairway.job(COUNTS.format(signs=signs), template="plain"), *TARGET)
        assert signs.lines(1) == ["attempt=0 count=0"]
        slurm.run("scontrol", "requeue", job_of(slurm, run))
        assert signs.lines(2)[1] == "attempt=1 count=1"
        [task] = outcome(fairway, run)["task_list"]
        assert (task["attempts"], task["failures_by_cause"]) == (2, {"preemption": 1})
        # Slurm may signal `sleep` before its shell, which then prints "Terminated".
        lines = fairway.within("logs", run).stdout.splitlines()
        first, why, second = (line for line in lines if "Terminated" not in line)
        assert (first, second) == ("attempt=0 count=0", "attempt=1 count=1")
        said = "fairway: attempt 2: Slurm ended the one before, and began it again; the checkpoint"
        assert why.startswith(said)

    @pytest.mark.nightly
    def test_slurm_task_continues_from_its_checkpoint_after_its_node_died(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        command = f"hostname >>{signs}; " + COUNTS.format(signs=signs)
        run = fairway.submit(fairway.job(command, template="plain"), *TARGET)
        [first, _] = signs.lines(2)
        slurm.kill_node(first)  # Slurm notices this without help
        second = signs.lines(4)[2]
        assert second != first
        [task] = outcome(fairway, run)["task_list"]
        assert (task["attempts"], task["node"]) == (2, second)
        assert task["failures_by_cause"] == {"node": 1}
        said = "fairway: attempt 2: its node failed, and Slurm began it again; the checkpoint is"
        assert fairway.within("logs", run, "--attempt", "2").stdout.startswith(said)

    def test_slurm_task_that_is_preempted_saves_on_each_node_and_restarts(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        # Several nodes, each of which must get the signal. The preemption uses up no retry.
        command = (
            # Once: a scheduler that signals a whole step may signal a process twice.
            f"trap 'trap : TERM; echo saved $FAIRWAY_NODE_RANK >>{signs}; exit 0' TERM;"
            f"echo up $FAIRWAY_ATTEMPT >>{signs}; [ $FAIRWAY_ATTEMPT = 1 ] && exit 0;"
            " while :; do sleep 0.05; done"
        )
        job = fairway.job(command, template="every-node", nodes=2, checkpoint={"grace": "20s"})
        run = fairway.submit(job, *TARGET)
        signs.lines(2)
        slurm.run("scancel", "--batch", "--signal=USR2", job_of(slurm, run))
        said = signs.lines(6)
        assert sorted(said[2:4]) == ["saved 0", "saved 1"]
        assert said[4:] == ["up 1", "up 1"]
        [task] = outcome(fairway, run)["task_list"]
        assert (task["attempts"], task["failures_by_cause"]) == (2, {"preemption": 1})
        why = "fairway: attempt 2: its nodes were taken away\n"
        assert fairway.within("logs", run, "--grep", "^fairway").stdout == why


class TestNodes:
    """Nodes that are drained, and access to nodes."""

    def test_slurm_ssh_reaches_idle_and_busy_nodes_and_refuses_unknown_ones(
        self, fairway: Fairway, slurm: SlurmCluster
    ) -> None:
        idle = fairway("ssh", "slurm-sim", "sim-1", "--", "hostname")
        assert (idle.returncode, idle.stdout) == (0, "sim-1\n"), idle.stderr
        slurm.run("sbatch", "-N3", "--exclusive", "--wrap", "sleep 600", "-o", "/dev/null")
        until(lambda: "RUNNING" in slurm.run("squeue", "-h", "-o", "%T"))
        busy = fairway("ssh", "slurm-sim", "sim-2", "--", "sh", "-c", "hostname; exit 7")
        assert (busy.returncode, busy.stdout) == (7, "sim-2\n"), busy.stderr
        fairway.refused("ssh", "slurm-sim", "sim-9", "--", "hostname", says="no node `sim-9`")

    @pytest.mark.usefixtures("slurm")
    def test_slurm_port_of_a_run_is_forwarded_to_this_machine(
        self, fairway: Fairway, hello: Callable[..., str]
    ) -> None:
        assert fairway.within("cancel", hello(*TARGET)).returncode == 0

    def test_slurm_drained_node_is_reported_with_its_reason_and_can_be_resumed(
        self, fairway: Fairway, slurm: SlurmCluster
    ) -> None:
        slurm.drain("sim-1", "a bad GPU")
        run = fairway.submit(fairway.job("true", template="every-node", nodes=3), *TARGET)
        assert fairway.show_waiting(run)["state"] == "queued"
        listed = json.loads(fairway.within("nodes", "list", "slurm-sim", "--json").stdout)
        nodes = {node["name"]: node for node in listed}
        assert nodes["sim-1"]["state"] == "drained"
        assert nodes["sim-1"]["reason"] == "a bad GPU"
        doctor = fairway.within("doctor", "slurm-sim")
        assert "the node sim-1 is drained: a bad GPU" in doctor.stdout
        fairway.ok("nodes", "resume", "slurm-sim", "sim-1")
        outcome(fairway, run)


class TestCutOff:
    """Commands that are killed, and a scheduler that is down."""

    @pytest.mark.parametrize("stage", ["published", "noted", "submitted"])
    def test_slurm_submit_killed_at_any_stage_resumes_as_one_job(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs, stage: str
    ) -> None:
        job = fairway.job(f"echo started >>{signs}", template="plain")
        folder = slurm.shared / "runs" / "mine"
        process = fairway.start("submit", job, *TARGET, "--run-id", "mine")
        until(lambda: _is_at(folder, stage))
        process.send_signal(signal.SIGKILL)
        process.wait()
        fairway.ok("submit", "--resume", "mine")
        fairway.ok("submit", job, *TARGET, "--run-id", "mine")
        outcome(fairway, "mine")
        assert signs.lines(1) == ["started"]
        listed = slurm.run("squeue", "-h", "-t", "all", "--name", "mine", "-o", "%i")
        assert len(listed.split()) == 1

    def test_slurm_runs_of_one_id_in_two_shared_folders_leave_each_other_alone(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs, gate: Gate
    ) -> None:
        """Their tasks share a node, and have the same number there."""
        for name in ("sim-1", "sim-2"):
            slurm.drain(name, "so that one node is left")
        command = f"touch $FAIRWAY_SCRATCH_DIR/own; echo up >>{signs}; read <{gate.path}; "
        fields = {"template": "plain", "cores": 1, "code": {"exclude": ["*"]}}
        job = fairway.job(command + "ls $FAIRWAY_SCRATCH_DIR", **fields)
        target = slurm.target
        target["slurm"] |= {"shared": str(slurm.folder / "of-bob")}
        bob = fairway.folder / "bob"
        bob.mkdir()
        (bob / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
        (bob / "job.yaml").write_text(job.read_text())
        for folder in (fairway.folder, bob):
            fairway.ok("submit", "job.yaml", *TARGET, "--run-id", "mine", cwd=folder)
        signs.lines(2)
        listed = slurm.run("squeue", "-h", "-t", "all", "--name", "mine", "-o", "%i %N")
        assert [each.split()[1] for each in listed.splitlines()] == ["sim-0", "sim-0"]
        assert fairway.ok("cancel", "mine", cwd=bob) == "mine cancelled\n"
        assert fairway.show("mine")["state"] == "running"
        gate.open()
        outcome(fairway, "mine")
        assert fairway.ok("logs", "mine") == "own\n"

    @pytest.mark.nightly
    def test_slurm_submits_of_one_run_id_from_four_projects_make_one_job(
        self, fairway: Fairway, slurm: SlurmCluster, gate: Gate
    ) -> None:
        job = fairway.job(f"read <{gate.path}", template="plain", code={"exclude": ["*"]})
        started = {}
        for number in range(4):
            folder = fairway.folder / f"folder-{number}"
            folder.mkdir()
            for name in ("fairway.yaml", "job.yaml"):
                (folder / name).write_text((fairway.folder / name).read_text())
            words = fairway.command("submit", job.name, *TARGET, "--run-id", "mine")
            started[folder] = subprocess.Popen(
                words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        said = {folder: each.communicate(timeout=PATIENCE)[1] for folder, each in started.items()}
        (first,) = [folder for folder, each in started.items() if each.returncode == 0]
        others = [text for folder, text in said.items() if folder != first]
        assert all(b"[taken-run-id]" in text for text in others), others
        listed = slurm.run("squeue", "-h", "-t", "all", "--name", "mine", "-o", "%i")
        assert len(listed.split()) == 1
        gate.open()
        assert fairway.within("wait", "mine", cwd=first).returncode == 0

    def test_slurm_scheduler_that_is_down_is_reported_and_logs_continue_after_it(
        self, fairway: Fairway, slurm: SlurmCluster, gate: Gate
    ) -> None:
        """A running job continues, and its known state is shown."""
        command = f"echo one; read <{gate.path}; echo two"
        run = fairway.submit(fairway.job(command, template="plain"), *TARGET)
        following = fairway.start("logs", run, "--follow")
        assert following.stdout.readline() == "one\n"
        slurm.stop_scheduler()
        for words in (("show", run), ("logs", run)):
            looked = fairway(*words)  # a process, so that its warnings are in its stderr
            assert looked.returncode == 0, looked.stderr
            assert "slurmctld does not answer" in looked.stderr
        assert looked.stdout == "one\n"
        fairway.refused(
            "submit",
            fairway.job("true", template="plain"),
            *TARGET,
            says="slurmctld does not answer",
            code=5,
        )
        gate.open()
        slurm.start_scheduler()
        assert following.stdout.read() == "two\n"
        assert following.wait(PATIENCE) == 0
        outcome(fairway, run)


def _is_at(folder: Path, stage: str) -> bool:
    if stage == "published":
        return (folder / "plan.json").exists()
    try:
        orders = json.loads((folder / "control.json").read_text())
    except FileNotFoundError:
        return False
    parts = orders["parts"]
    return bool(parts) and (stage == "noted" or bool(parts[0]["job"]))


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_slurm_run_without_its_folder_is_lost_and_cancel_or_retry_ends_its_job(
    fairway: Fairway, slurm: SlurmCluster, signs: Signs, action: str
) -> None:
    command = f"echo $FAIRWAY_ATTEMPT >>{signs}; [ -e {signs}.go ] || sleep 600"
    run = fairway.submit(fairway.job(command, template="plain"), *TARGET)
    signs.lines(1)
    first = job_of(slurm, run)
    (slurm.shared / "runs" / run).rename(slurm.shared / "removed")  # the job still writes there
    shutil.rmtree(slurm.shared / "removed", ignore_errors=True)
    assert fairway.show(run)["state"] == "lost"
    Path(f"{signs}.go").touch()
    done = fairway.within(action, run)
    assert done.returncode == 0, done.stderr
    states = slurm.run("squeue", "-h", "-t", "all", "--name", run, "-o", "%A %T").splitlines()
    assert dict(each.split() for each in states)[first] not in ("RUNNING", "COMPLETING")
    if action == "cancel":
        assert done.stdout == f"{run} cancelled\n"
        assert len(states) == 1
    else:
        outcome(fairway, run)
