"""Tasks that a person has ended, each by itself, while the others of the run go on.

    cancelled-tasks/TASK    the submission that it holds for: a retry runs the task again

Standard library only.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent import fields, record
from fairway_agent.fields import Fields
from fairway_agent.task_spec import LAST

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "cancelled-tasks"


def cancel(run: Path, task: str, submission: int = 0) -> None:
    """Notes that the task of that name is to end."""
    folder = run / _FOLDER
    folder.mkdir(exist_ok=True)
    record.write_json(folder / task, {"submission": submission})


def is_cancelled(run: Path, task: str, submission: int = 0) -> bool:
    """Whether it is to end, in that submission."""
    found = fields.read(run / _FOLDER / task, _number)
    return found is not None and found >= submission


def names(run: Path) -> set[str]:
    """The names of all that are to end; what else lies there is none."""
    with suppress(FileNotFoundError):
        found = {path.name for path in (run / _FOLDER).iterdir()}
        return {name for name in found if name.isdecimal() or name == LAST}
    return set()


def forget(run: Path) -> None:
    """The run runs again, with all of its tasks."""
    shutil.rmtree(run / _FOLDER, ignore_errors=True)


def _number(facts: object) -> int:
    return Fields(facts, "the note").count("submission")
