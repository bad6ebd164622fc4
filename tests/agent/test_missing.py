"""A launcher's program that a node does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent import state_files
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task import launch
from fairway_agent.task.task import Nodes, Task
from fairway_agent.task_logs import how_to_get, missing_program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("launch.sh: line 12: torchrun: command not found\n", "torchrun"),
        ("a" * 9000 + "\nlaunch.sh: line 12: torchrun: command not found", "torchrun"),
        ("sh: 1: torchrun: not found\r\n", "torchrun"),
        ("launch.sh: line 1: torchrun: command not found\n" + "a" * 9000, ""),  # long ago
        ("launch.sh: line 12: nvcc: command not found\n", ""),  # the job's own
        ("torchrun: command not found, or is it?\n", ""),
        ("", ""),
        ("\xff\x00", ""),
    ],
)
def test_missing_program_is_found_in_the_messages_of_shells(
    tmp_path: Path, log: str, found: str
) -> None:
    (tmp_path / "log.txt").write_bytes(log.encode("latin-1"))
    assert missing_program(("torchrun",), tmp_path / "log.txt") == found


def test_missing_program_without_a_log_is_empty(tmp_path: Path) -> None:
    assert missing_program(("torchrun",), tmp_path / "log.txt") == ""


def test_the_package_is_named() -> None:
    assert how_to_get("torchrun") == "pip install torch"
    assert how_to_get("own-launcher") == "install what has own-launcher"


@pytest.mark.parametrize(
    ("script", "needs", "says"),
    [
        ("no-such-launcher --n 2", ("no-such-launcher",), True),
        ("no-such-launcher --n 2", (), False),
        ("no-such-program", ("no-such-launcher",), False),
        ("no-such-launcher; exit 3", ("no-such-launcher",), False),
        ("exit 127", ("no-such-launcher",), False),
    ],
)
def test_a_task_that_ended_for_it_says_so(
    tmp_path: Path, script: str, needs: tuple[str, ...], says: bool
) -> None:
    (tmp_path / "job.json").write_text("{}")
    plan = RunPlan("job-a", str(tmp_path), needs=needs)
    reason, log = _ended(Task(plan, TaskSpec(0, script=script), tmp_path, tmp_path / "tasks/0"))
    why = (
        "`no-such-launcher` is not on the node's PATH: install what has no-such-launcher in the "
        "job's `setup:`, use an image that has it, or give the job a `container:`"
    )
    assert reason == (why if says else None)
    assert log.endswith(f"fairway: {why}\n") is says


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (0, "is not on the PATH of the job's container: use an image that has it"),
        ("setup", "is not on the node's PATH: pip install torch"),  # which runs outside
    ],
)
def test_missing_program_in_a_container_is_blamed_on_its_image(
    tmp_path: Path, name: int | str, says: str
) -> None:
    (tmp_path / "job.json").write_text('{"container": {"image": "a"}}')
    plan = RunPlan("job-a", str(tmp_path), needs=("torchrun",))
    script = "echo launch.sh: line 1: torchrun: command not found; exit 127"
    spec = TaskSpec(name, script=script)
    task = Task(plan, spec, tmp_path, tmp_path / "task", nodes=_Inside())
    reason, log = _ended(task)
    assert f"`torchrun` {says}" in (reason or "")
    assert f"fairway: `torchrun` {says}" in log


class _Inside(Nodes):
    """Nodes on which this program runs in the job's container already."""

    def command(self, _: Task, script: Path) -> list[str]:
        return ["bash", str(script)]


def _ended(task: Task) -> tuple[str | None, str]:
    """The reason with which a task ends, and its log."""
    launch.start(task)
    task.process.wait()
    code = task.ended()
    assert code is not None
    task.finish("failed", code)
    known = state_files.read_task(task.folder)
    return known.reason, (task.folder / "log.txt").read_text()
