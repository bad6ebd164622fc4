"""Leftover processes of a killed Slurm job, which are ended before the next task on the node."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from programs import executable
from waiting import PATIENCE

from fairway_agent import scratch
from fairway_agent.machine import Host
from fairway_agent.slurm import allocation
from fairway_agent.slurm.allocation import SlurmNodes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task.task import Task
from fairway_boot.files import AgentError

pytestmark = pytest.mark.integration

DAEMON = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"
# Like squeue: omits the jobs of a hidden partition without `-a`, and suspended ones without their
# state.
LISTS = """
echo '12|RUNNING'
case " $* " in *" -t all "*) printf '13|SUSPENDED\n15|CANCELLED\n' ;; esac
case " $* " in *" -a "*) echo '14|COMPLETING' ;; esac
"""
OWN = {"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "1"}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Returns a shared folder that no other test uses."""
    return tmp_path / uuid.uuid4().hex


@pytest.fixture
def daemon(shared: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Yields a function that starts a process in its own session, with the variables of a task's
    job."""
    started: list[subprocess.Popen[str]] = []

    def start(job: str | None, folder: str = "runs/a/shared", **more: str) -> subprocess.Popen[str]:
        names = {"FAIRWAY_SHARED_DIR": str(shared / folder), **more}
        if job is not None:
            names["SLURM_JOB_ID"] = job
        process = subprocess.Popen(
            ["bash", "-c", DAEMON],
            env={**os.environ, **names},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def squeue(programs: Path) -> Callable[[str], object]:
    """Returns a function that sets squeue's script."""
    return partial(executable, programs / "squeue")


def test_slurm_leftovers_of_ended_jobs_are_killed_and_others_kept(
    shared: Path,
    daemon: Callable[..., subprocess.Popen[str]],
    squeue: Callable[[str], None],
    tmp_path: Path,
) -> None:
    squeue(f"touch {tmp_path}/asked")
    allocation.end_stale_processes(shared, OWN)
    assert not (tmp_path / "asked").exists(), "nothing is left"
    squeue(LISTS)
    left, before = daemon("7"), daemon("12")  # its own job, before it was requeued
    going, hidden = daemon("13"), daemon("14")
    ended = daemon("15")
    own = daemon("12", SLURM_RESTART_COUNT="1")
    others = [daemon("7", "../elsewhere/runs/a/shared"), daemon(None), daemon("7", "notes")]
    allocation.end_stale_processes(shared, OWN)
    assert (left.wait(PATIENCE), before.wait(PATIENCE), ended.wait(PATIENCE)) == (3, 3, 3)
    assert [each.poll() for each in (going, hidden, own, *others)] == [None] * 6


@pytest.mark.parametrize(
    "script", ["echo Unable to contact slurm controller >&2; exit 1", "echo no >&2; exit 1"]
)
def test_slurm_leftovers_without_squeue_are_killed_for_the_own_job_only(
    shared: Path,
    daemon: Callable[..., subprocess.Popen[str]],
    squeue: Callable[[str], None],
    script: str,
) -> None:
    squeue(script)
    unknown, before = daemon("7"), daemon("12")
    allocation.end_stale_processes(shared, OWN)
    assert before.wait(PATIENCE) == 3
    assert unknown.poll() is None


@pytest.mark.parametrize(
    ("text", "contained"),
    [
        ("0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n", True),
        ("5:freezer:/slurm/uid_0/job_12/step_batch\n1:name=systemd:/\n", True),
        ("0::/system.slice/slurmstepd.scope/job_123/step_batch\n", False),
        ("0::/user.slice\n", False),
        (None, False),
    ],
)
def test_slurm_leftovers_job_with_a_cgroup_is_recognized(
    tmp_path: Path, text: str | None, contained: bool
) -> None:
    if text is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(text)
    assert allocation.are_contained({"SLURM_JOB_ID": "12"}, tmp_path) is contained


def test_slurm_leftovers_node_that_never_answers_does_not_block_the_task(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun waits for the node forever; the task begins and ends all the same, and its log says why
    processes may be left."""
    run = tmp_path / "shared" / "runs" / "job-a"
    executable(programs / "srun", "exec sleep 100000")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setattr(allocation, "_STEP_PATIENCE", 0.2)
    nodes, hosts = SlurmNodes(), [Host(name, name) for name in ("nd-1", "nd-2", "nd-3")]
    plan, spec = RunPlan("job-a", "/x"), TaskSpec(0, nodes=3)
    task = Task(plan, spec, run, run, nodes=nodes, hosts=hosts)
    task.folder.mkdir(parents=True)
    (run / "job.json").write_text("{}")
    told = subprocess.Popen(["srun"])
    nodes.signalling.append(told)
    nodes.prepare(task)
    nodes.clean(task, 0)
    said = (task.folder / "log.txt").read_text()
    assert said.count("nd-2, nd-3 may go on: no answer in time") == 2
    assert told.returncode == -9


def test_slurm_scratch_on_another_node_is_made_and_removed_when_the_task_leaves_it(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tasks" / "job-a-0"
    monkeypatch.setattr(sys, "argv", ["", "make", str(folder)])
    allocation.main()
    assert folder.exists()
    monkeypatch.setattr(sys, "argv", ["", "leave", f"{shared}#0", "0", str(folder)])
    allocation.main()
    assert not folder.exists()
    folder.parent.chmod(0o777)
    monkeypatch.setattr(sys, "argv", ["", "make", str(folder)])
    with pytest.raises(SystemExit, match="alone; remove it"):
        allocation.main()


def test_slurm_leftovers_that_other_nodes_cannot_remove_fail_the_task(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun returns the highest code of all nodes: that of a killed program hides others."""
    executable(programs / "srun", "exit 137")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "disk")
    run, hosts = tmp_path / "shared/runs/job-a", [Host(name, name) for name in ("nd-1", "nd-2")]
    nodes = SlurmNodes()
    task = Task(RunPlan("job-a", "/x"), TaskSpec(0, nodes=2), run, run, nodes=nodes, hosts=hosts)
    with pytest.raises(AgentError, match="cannot be made on each of nd-2") as refused:
        nodes.command(task, run / "script")
    assert refused.value.record["id"] == "no-scratch"
