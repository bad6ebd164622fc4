"""One task in a Slurm allocation: a full disk, and processes left on its other nodes."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from run_folders import bring
from waiting import PATIENCE

from fairway_agent import job_facts
from fairway_agent.slurm import allocation
from fairway_agent.slurm.allocation import processes_of
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task.task import Nodes

pytestmark = pytest.mark.integration


JOB = (
    Path(__file__).parents[1].joinpath("full_disk.py").read_text()
    + """
from fairway_agent.slurm import job

job.main()
"""
)
# Signals the job after its task has ended by the same signal.
TOLD_LATE = """
import os, signal, threading
from fairway_agent.task.task import Task

ended = Task.ended
def end(task):
    code = ended(task)
    if code is not None:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return code
Task.ended = end
"""
# Runs the command for another node on this machine, and logs it.
SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
printf '%s ' "${@:4}" >>"$SRUN_LOG"; echo >>"$SRUN_LOG"
exec "$@"
"""
# Parallel tests must not find this test's processes by their names.
RUN = f"full-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def node(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs first on PATH, and the variables of a Slurm job on two nodes."""
    executable(programs / "srun", SRUN)
    executable(programs / "scontrol", "echo n1\necho n2")
    monkeypatch.setenv("SRUN_LOG", str(tmp_path / "srun.log"))
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return programs


def run_job(
    folder: Path, script: str, nodes: str, program: str = JOB, **plan: Any
) -> subprocess.CompletedProcess[str]:
    spec = TaskSpec(0, script=script, nodes=nodes.count(",") + 1)
    run = bring(folder / "runs" / RUN, RunPlan(RUN, str(folder), **plan), [spec])
    job_facts.write_index(run / "tasks.jsonl", run / "tasks.offsets")
    words = [sys.executable, "-P", "-c", program, str(run), "tasks", "0", "0", "0"]
    environment = {**os.environ, "SLURM_JOB_NODELIST": nodes}
    return finished(words, env=environment)


def state(folder: Path) -> dict[str, Any]:
    file = folder / f"runs/{RUN}/tasks/0/state.json"
    return json.loads(file.read_text())


@pytest.mark.parametrize("code", [0, 3])
def test_slurm_task_with_a_temporarily_full_disk_ends_with_its_exit_code(
    tmp_path: Path, node: Path, code: int
) -> None:
    script = f"touch {tmp_path}/runs/{RUN}/full; exit {code}"
    done = run_job(tmp_path, script, "n1")
    assert (done.returncode, done.stderr) == (code, "")
    known = state(tmp_path)
    assert known["state"] == ("failed" if code else "succeeded")
    assert known["exit_code"] == code
    assert known["reason"] == "the disk was full for a while, and states were written late"


@pytest.mark.parametrize(
    ("before", "limits", "ends", "reason"),
    [
        ({"state": "running"}, {"node": 1}, {"node": 1}, None),
        ({"state": "running"}, {}, {"node": 1}, None),
        (
            {"state": "running", "failures_by_cause": {"node": 1}},
            {"node": 1},
            {"node": 2},
            "node: 1",
        ),
        ({"state": "running", "stopped": True}, {"preemption": 0}, {"preemption": 1}, "emption: 0"),
        ({"state": "running", "stopped": True}, {"node": 0}, {"preemption": 1}, None),
        # An end that was counted while the task was queued is not counted again.
        ({"state": "queued", "failures_by_cause": {"node": 1}}, {"node": 1}, {"node": 1}, None),
        # Recorded by an earlier submission.
        (
            {"state": "failed", "failures_by_cause": {"node": 9}, "submission": 1},
            {"node": 1},
            None,
            None,
        ),
    ],
)
def test_slurm_task_that_lost_its_node_starts_again_within_its_retry_limits(
    tmp_path: Path,
    node: Path,
    before: dict[str, Any],
    limits: dict[str, int],
    ends: dict[str, int] | None,
    reason: str | None,
) -> None:
    task = tmp_path / "runs" / RUN / "tasks" / "0"
    task.mkdir(parents=True)
    facts = {"attempt": 1, "submission": 0, **before}
    (task / "state.json").write_text(json.dumps(facts))
    done = run_job(tmp_path, "true", "n1", retry_limits=limits)
    known = state(tmp_path)
    assert known.get("failures_by_cause") == ends
    if reason is None:
        assert (done.returncode, known["state"], known["attempt"]) == (0, "succeeded", 2)
        return
    assert (done.returncode, known["state"], known["attempt"]) == (5, "failed", 1)
    assert f"{reason}}}` is used up" in known["reason"]


@pytest.mark.parametrize("file", ["tasks/0/state.json", "control.json", "setup/state.json"])
def test_slurm_task_with_a_damaged_file_fails_and_reports_the_file(
    tmp_path: Path, node: Path, file: str
) -> None:
    damaged = tmp_path / "runs" / RUN / file
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_text('{"state": "run')
    done = run_job(tmp_path, "true", "n1")
    assert (done.returncode, done.stderr) == (74, "")
    known = state(tmp_path)
    assert known["state"] == "failed"
    assert f"{damaged}: damaged: " in known["reason"]


def test_slurm_task_signalled_with_its_program_is_recorded_as_stopped(
    tmp_path: Path, node: Path
) -> None:
    done = run_job(tmp_path, "kill -TERM $$", "n1", program=TOLD_LATE + JOB)
    assert (done.returncode, done.stderr) == (143, "")
    known = state(tmp_path)
    assert (known["state"], known.get("stopped")) == ("running", True)


def test_slurm_task_whose_program_kills_itself_has_failed(tmp_path: Path, node: Path) -> None:
    done = run_job(tmp_path, "kill -TERM $$", "n1")
    assert (done.returncode, state(tmp_path)["state"]) == (143, "failed")


def test_slurm_task_ends_processes_on_its_other_nodes_before_it_succeeds(
    tmp_path: Path, node: Path
) -> None:
    done = run_job(tmp_path, "true", "n1,n2")
    assert (done.returncode, done.stderr) == (0, "")
    steps = (tmp_path / "srun.log").read_text()
    assert f"fairway_agent.slurm.allocation leave {tmp_path}/runs/{RUN}#0 2.0 " in steps
    assert state(tmp_path)["state"] == "succeeded"


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[str]]:
    """A program with its task's variables that has left its session and ignores SIGTERM."""
    names = {"FAIRWAY_RUN": RUN, "FAIRWAY_TASK": "7", Nodes.MARK: f"/data/runs/{RUN}#7"}
    with subprocess.Popen(
        ["setsid", "bash", "-c", "trap '' TERM; echo ready; sleep 600"],
        env={**os.environ, **names},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_slurm_end_all_kills_a_daemon_of_its_task_only(daemon: subprocess.Popen[str]) -> None:
    """Another shared folder may have a run of the same ID."""
    for other in (f"/data/runs/{RUN}#8", f"/home/ada/runs/{RUN}#7"):
        allocation.end_all(other, 0.0)
        assert daemon.poll() is None
    own = f"/data/runs/{RUN}#7"
    allocation.end_all(own, 0.0)
    assert daemon.wait(PATIENCE) == -9
    assert processes_of(own) == set()
