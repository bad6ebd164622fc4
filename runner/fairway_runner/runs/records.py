"""What is written of a run in its folder: its record, its states, and how they are read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from pathlib import Path

FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})


@dataclass(frozen=True)
class RunRecord:
    """What was submitted; `created` is in seconds since 1970."""

    id: str
    name: str
    target: str
    created: float
    tasks: int
    job_file: str
    fairway: str
    metrics: dict[str, str] = field(default_factory=dict)
    engine: str = "local"


def is_run_id(text: str) -> bool:
    """Whether a run can have that id, which is a folder's name too.

    >>> is_run_id("digits-7k2m9p"), is_run_id("../digits")
    (True, False)
    """
    return re.fullmatch(r"[a-z][a-z0-9-]{0,62}", text) is not None


def settled(status: dict[str, Any], run_state: str) -> dict[str, Any]:
    """The state of a task or a setup: in a run that has ended, none is still to come."""
    if run_state in FINAL_STATES and status["state"] not in FINAL_STATES:
        status["state"] = "lost" if run_state == "lost" else "cancelled"
    return status


def read_json(path: Path) -> dict[str, Any]:
    """A mapping from a file; UserError where it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise damaged(path, str(error)) from None
    if not isinstance(value, dict):
        raise damaged(path, "not a mapping")
    return value


def damaged(path: Path, why: str) -> UserError:
    """What is said of a file of a run that cannot be read."""
    hint = f"remove the run's folder if it is of no more use: {path.parent}"
    return UserError.of("damaged-run", f"{path}: damaged: {why}", hint)
