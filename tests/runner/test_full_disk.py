"""A temporarily full disk: a supervisor continues, and writes its states as soon as it can."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from run_folders import bring

from fairway_agent import state_files
from fairway_agent.spec import Output, RunPlan, TaskSpec
from fairway_agent.state_files import TaskState
from fairway_boot import files

pytestmark = pytest.mark.integration

PROGRAM = (
    Path(__file__).with_name("full_disk.py").read_text()
    + """
from fairway_agent import job_facts, supervisor

_, ready = os.pipe()
lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
supervisor.supervise(folder, lock, ready, job_facts.read_plan(folder), patience=patience)
"""
)
# Makes the first starts of tasks fail. Arguments: errno, number of failures, and for how many
# seconds the supervisor waits for the failure to pass.
FAULTS = """
import os, sys
from fairway_agent.task import attempts

number, left = int(sys.argv[2]), [None] * int(sys.argv[3])
patience = attempts.Patience(int(sys.argv[4]))
program = attempts.program

def refuse(task, *words):
    if not left:
        return program(task, *words)
    left.pop()
    raise OSError(number, os.strerror(number))

attempts.program = refuse
"""


def supervised(
    folder: Path,
    *scripts: str,
    outputs: dict[str, Output] | None = None,
    faults: tuple[int, int, int] = (0, 0, 0),
    retries: int = 0,
) -> subprocess.CompletedProcess[str]:
    plan = RunPlan("full-aaaaaa", str(folder), tasks=2, max_parallel=1, retries=retries)
    tasks = enumerate(scripts)
    bring(folder, plan, [TaskSpec(n, script=text, outputs=outputs or {}) for n, text in tasks])
    words = [sys.executable, "-P", "-c", FAULTS + PROGRAM, str(folder), *map(str, faults)]
    return finished(words)


def state(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return value


def task_states(folder: Path) -> list[dict[str, Any]]:
    return [state(folder / "tasks" / number) for number in "01"]


@pytest.mark.parametrize("task", [0, 1])
def test_full_disk_that_clears_delays_states_and_keeps_results(tmp_path: Path, task: int) -> None:
    """The disk is full from the first task on, or from the last: then space returns only after
    all tasks have ended."""
    scripts = ["true", "exit 3"]
    scripts[task] = f"touch {tmp_path}/full; {scripts[task]}"
    done = supervised(tmp_path, *scripts)
    assert (done.returncode, done.stderr) == (0, "")
    run = state(tmp_path)
    assert run["state"] == "failed"
    assert run["tasks"] == {"succeeded": 1, "failed": 1}
    assert run["reason"] == "the disk was full for a while, and states were written late"
    first, second = task_states(tmp_path)
    assert (first["state"], first["exit_code"]) == ("succeeded", 0)
    assert (second["state"], second["exit_code"]) == ("failed", 3)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EAGAIN, errno.EMFILE])
def test_task_start_that_fails_temporarily_is_repeated(tmp_path: Path, fault: int) -> None:
    done = supervised(tmp_path, "true", "exit 3", faults=(fault, 5, 600))
    assert (done.returncode, done.stderr) == (0, "")
    run = state(tmp_path)
    assert run["tasks"] == {"succeeded": 1, "failed": 1}
    assert run["reason"] is None
    first, second = task_states(tmp_path)
    assert (first["state"], first["attempt"]) == ("succeeded", 0)
    assert (second["state"], second["exit_code"], second["attempt"]) == ("failed", 3, 0)


@pytest.mark.parametrize(("fault", "wait"), [(errno.EACCES, 600), (errno.ENOSPC, -1)])
def test_task_start_that_fails_permanently_fails_only_that_task(
    tmp_path: Path, fault: int, wait: int
) -> None:
    """The task is not retried, as a retry would fail in the same way."""
    done = supervised(tmp_path, "true", "true", faults=(fault, 1, wait), retries=1)
    assert (done.returncode, done.stderr) == (0, "")
    run = state(tmp_path)
    assert (run["state"], run["tasks"]) == ("failed", {"failed": 1, "succeeded": 1})
    first, second = task_states(tmp_path)
    assert (first["state"], first["exit_code"], second["state"]) == ("failed", 74, "succeeded")
    assert os.strerror(fault) in first["reason"]
    assert os.strerror(fault) in run["reason"]


def test_outputs_that_cannot_be_kept_fail_only_their_task(tmp_path: Path) -> None:
    """A file in place of the outputs folder stands for a full disk or a foreign folder."""
    (tmp_path / "tasks/0").mkdir(parents=True)
    (tmp_path / "tasks/0/outputs").write_text("in the way")
    output = {"model": Output("model/**", "success")}
    done = supervised(tmp_path, 'echo 1 >"$FAIRWAY_OUTPUT_MODEL/m"', "true", outputs=output)
    assert (done.returncode, done.stderr) == (0, "")
    assert state(tmp_path)["tasks"] == {"failed": 1, "succeeded": 1}
    first = state(tmp_path / "tasks/0")
    assert (first["state"], first["exit_code"]) == ("failed", 74)
    assert first["reason"].startswith("outputs could not be kept: ")
    assert first["reason"].endswith(f"; they are in {tmp_path}/tasks/0/work")


def test_full_disk_leaves_no_partial_state_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_json(tmp_path / "state.json", {"state": "running"})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", full)
        states = state_files.States()
        states.write(tmp_path / "state.json", TaskState("failed"))
        assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert state(tmp_path) == {"state": "running"}
    states.write_late()
    assert state(tmp_path) == TaskState("failed", reason=state_files.WAS_FULL).to_json()
    assert states.late == {}
