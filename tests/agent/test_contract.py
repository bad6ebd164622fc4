"""What the script of a task is told, beside what its engine adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.spec import Chained, RunPlan, TaskSpec
from fairway_agent.task import launch
from fairway_agent.task.task import Task

if TYPE_CHECKING:
    import pytest


def _told(run: Path, index: int | str) -> dict[str, str]:
    task = Task(RunPlan("job-aaaaaa", str(run)), TaskSpec(index), run, run / "tasks" / str(index))
    return launch.contract(task)


def test_only_the_last_task_is_told_of_what_the_others_have_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that a last task submits has other tasks."""
    monkeypatch.setenv("FAIRWAY_TASKS_DIR", "/of/the/run/that/submitted/this")
    for name in ("0/outputs/part", "1", "2/outputs/part", "setup/outputs/part"):
        (tmp_path / "tasks" / name).mkdir(parents=True)
    assert "FAIRWAY_TASKS_DIR" not in _told(tmp_path, 0)
    for _ in range(2):  # an attempt finds what the one before was given
        given = Path(_told(tmp_path, "finally")["FAIRWAY_TASKS_DIR"])
        assert {each.name for each in given.iterdir()} == {"0", "2"}
        assert (given / "2" / "part").is_dir()


def test_an_input_that_was_not_kept_is_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "job-aaaaaa"
    (run / "tasks").mkdir(parents=True)

    def missing(path: str) -> str:
        plan = RunPlan("job-aaaaaa", str(run), chained=(Chained("model", path),))
        return launch.missing_input(Task(plan, TaskSpec(0), run, run / "tasks/0"))

    kept = "runs/train-a/tasks/3/outputs/weights"
    assert missing(kept) == "task 3 of train-a has kept no file in `weights`"
    (tmp_path / kept).mkdir(parents=True)
    assert missing(kept) == ""
    gone = f"the input `model` no longer exists: {tmp_path}/chained/abc"
    assert missing("chained/abc") == gone
