"""What is known of the jobs that Slurm has of a run, as the next command reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent.control import Numbers, Part
from fairway_agent.shared import receive
from fairway_agent.shared.receive import Submission
from fairway_agent.spec import TaskSpec

if TYPE_CHECKING:
    from pathlib import Path


def test_slurm_submission_record_round_trips(tmp_path: Path) -> None:
    """What each task takes of its node too: a submission that was cut off goes on with it."""
    parts = [Part("tasks", 0, Numbers([0, 1]), 1, 2, "7", gpus=1, cores=4, part=0.25)]
    parts.append(Part("finally", 1, Numbers([2]), 1, 1))
    written = Submission(3, parts, complete=False)
    written.write(tmp_path)
    assert receive.read(tmp_path) == written


@pytest.mark.parametrize(("index", "name"), [("finally", "finally"), (2, "2")])
def test_the_last_task_has_the_folder_that_its_release_gave_it(
    tmp_path: Path, index: str | int, name: str
) -> None:
    (tmp_path / "finally.jsonl").write_text(TaskSpec(index).line())
    assert (
        Part("finally", 1, Numbers([2]), 1, 1).task_folder(tmp_path, 2) == tmp_path / "tasks" / name
    )
    assert (
        Part("tasks", 0, Numbers([0, 1]), 1, 1).task_folder(tmp_path, 1) == tmp_path / "tasks" / "1"
    )
