"""Why something does not go on: a line that one program leaves for others in a file.

Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import fields, record
from fairway_agent.fields import Fields

if TYPE_CHECKING:
    from pathlib import Path

KEEPER = "keeper.json"
"""In a run's folder: why its keeper cannot start what is due."""
GANG = "stuck.json"
"""Beside what the pods of a task say of themselves: why others do not come."""


def folder_of(task: Path, submission: int) -> Path:
    """Where the pods of a task say of themselves where they are."""
    return task / "pods" / str(submission)


def read(file: Path) -> str:
    """What it says; "" where nothing is in the way."""
    return fields.read(file, _why) or ""


def write(file: Path, why: str) -> None:
    """Says it, once; "" takes it back."""
    if why == read(file):
        return
    if why:
        record.write_json(file, {"why": why})
    else:
        file.unlink(missing_ok=True)


def _why(facts: object) -> str:
    return Fields(facts, "what is in the way").text("why")
