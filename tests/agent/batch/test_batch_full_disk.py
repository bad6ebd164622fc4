"""A disk of a node that is full: what the task's program did counts, and its log says what is not
kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import job_facts
from fairway_agent.spec import Output, RunPlan, TaskSpec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

# What the disk refuses is named by the arguments: a module's function, and a part of the path.
PROGRAM = """
import errno, os, sys
from pathlib import Path
import fairway_agent.batch.main as main
import shutil

def full(function):
    def refuse(*words, **more):
        for word in words:
            if isinstance(word, (str, Path)) and any(part in str(word) for part in PARTS):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(word))
        return function(*words, **more)
    return refuse

PARTS = sys.argv.pop().split(",")
shutil.copyfile, shutil.move = full(shutil.copyfile), full(shutil.move)
Path.write_text, Path.mkdir = full(Path.write_text), full(Path.mkdir)
sys.exit(main.main())
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with one task, as Batch lays it out."""
    record = tmp_path / "prep/record"
    record.mkdir(parents=True)
    (tmp_path / "prep/code").mkdir()
    for name in ("task/wd", "shared"):
        (tmp_path / name).mkdir(parents=True)
    (record / "plan.json").write_text(RunPlan("job-a", "code", sample_every=None).text())
    (record / "target.json").write_text(json.dumps({"batch": {}}))
    (record / "job.json").write_text("{}")
    (tmp_path / "prep/setup.json").write_text(json.dumps({"exit_code": 0}))
    return tmp_path


def _run(node: Path, script: str, *parts: str, **variables: str) -> tuple[int, str]:
    """The exit code of a task that runs a script, and its log."""
    spec = TaskSpec(0, script=script, outputs={"model": Output("model/**", "always")})
    tasks = node / "prep/record/tasks.jsonl"
    for file in (tasks, tasks.with_name("finally.jsonl")):
        file.write_text(spec.line())
    job_facts.write_index(tasks, node / "prep/tasks.index")
    environment: dict[str, Any] = {
        **os.environ,
        "AZ_BATCH_JOB_PREP_WORKING_DIR": str(node / "prep"),
        "AZ_BATCH_TASK_DIR": str(node / "task"),
        "AZ_BATCH_TASK_WORKING_DIR": str(node / "task/wd"),
        "AZ_BATCH_NODE_SHARED_DIR": str(node / "shared"),
        "FAIRWAY_TASK": "0",
        **variables,
    }
    log = node / "task/stdout.txt"
    words = [sys.executable, "-c", PROGRAM, "task", ",".join(parts) or "nowhere"]
    with log.open("wb") as out:
        done = subprocess.run(
            words, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=300, check=False
        )
    return done.returncode, log.read_text()


def test_with_room_it_keeps_its_log_and_ends_as_its_program_did(node: Path) -> None:
    assert _run(node, "echo one; exit 3") == (3, "one\n")
    kept = list((node / "shared").rglob("logs/0/0.txt"))
    assert [each.read_text() for each in kept] == ["one\n"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_log_that_cannot_be_kept_changes_no_exit_code(node: Path, code: int) -> None:
    found, log = _run(node, f"echo one; exit {code}", "/logs/0", FAIRWAY_LAST="")
    assert found == code
    assert log.startswith("one\nfairway: this attempt's log could not be kept for the next: ")
    assert "No space left on device" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(("code", "found"), [(0, 74), (3, 3)])
def test_batch_full_disk_unkept_outputs_change_the_exit_code_of_a_success_only(
    node: Path, code: int, found: int
) -> None:
    variables = {"FAIRWAY_SCHEDULE": "1", "AZ_BATCH_JOB_ID": "job-a:job-1"}
    script = f'echo one; echo m >"$FAIRWAY_OUTPUT_MODEL/m"; exit {code}'
    ended, log = _run(node, script, "wd/kept", **variables)
    assert ended == found
    assert "fairway: outputs could not be kept: [Errno 28] No space left on device" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("part", ["launch.sh", "/attempts", "wd/logs", "checkpoints"])
def test_batch_task_on_full_disk_that_cannot_begin_exits_69_with_one_line(
    node: Path, part: str
) -> None:
    code, log = _run(node, "echo one", part)
    assert code == 69
    assert log.startswith("fairway: the task was not started: [Errno 28] No space left on device")
    assert "Traceback" not in log
    assert "one\n" not in log


@pytest.mark.parametrize("code", [0, 3, 127])
def test_batch_task_whose_log_takes_no_byte_keeps_its_exit_code(node: Path, code: int) -> None:
    """The kernel takes no byte of it any more, nor of its log."""
    plan = RunPlan("job-a", "code", sample_every=None, needs=("torchrun",))
    (node / "prep/record/plan.json").write_text(plan.text())
    said = "launch.sh: line 1: torchrun: command not found"
    full = (
        "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, (0, -1))"
    )
    script = f"echo {said}; {sys.executable} -c '{full}' $PPID; exit {code}"
    found = _run(node, script, FAIRWAY_LAST="")
    assert found == (code, f"{said}\n")
