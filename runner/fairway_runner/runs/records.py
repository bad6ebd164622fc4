"""Records in a run's folder: its record of the submission, its states, and how they are read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.records import JsonRecord, Moment, Plain, Unfit
from fairway_agent.spec import TaskSpec
from fairway_agent.state_files import FINAL_STATES as FINAL_STATES
from fairway_agent.state_files import RunState
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeVar

    from fairway_agent.records import Fields
    from fairway_agent.spec import Retry, RunPlan
    from fairway_agent.state_files import TaskState

    T = TypeVar("T")

_MOST_TASKS = 1_000_000  # ten times what a sweep may have


@dataclass(frozen=True)
class RunRecord(JsonRecord):
    """Record of a submission; `created` is in seconds since 1970."""

    CALLED = "run.json"

    id: Plain
    name: Plain
    target: Plain
    created: Moment
    tasks: int
    job_file: str
    fairway: Plain
    metrics: dict[str, str] = field(default_factory=dict)
    engine: Plain = HERE
    tags: list[Plain] = field(default_factory=list)
    note: str = ""

    def check(self, found: Fields) -> None:
        """Unfit for more tasks than a run has, and for a metric whose pattern is none."""
        if self.tasks > _MOST_TASKS:
            raise found.unfit("tasks")
        for pattern in self.metrics.values():
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError):
                raise found.unfit("metrics") from None


LONGEST_ID = 63


def is_run_id(text: str) -> bool:
    """True if a run can have that id, which is a folder's name too.

    >>> is_run_id("digits-7k2m9p"), is_run_id("../digits")
    (True, False)
    """
    return len(text) <= LONGEST_ID and re.fullmatch(r"[a-z][a-z0-9-]*", text) is not None


def settled(state: str, run_state: str) -> str:
    """The state of a task or a setup: in a run that has ended, none is still to come."""
    if run_state in FINAL_STATES and state not in FINAL_STATES:
        return "lost" if run_state == "lost" else "cancelled"
    return state


def read_json(path: Path) -> dict[str, Any]:
    """A mapping from a file; UserError for a damaged one, FileNotFoundError for a missing one."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except PermissionError as error:
        hint = f"see whose it is: ls -ld {path.parent}"
        raise UserError.of("unreadable-run", f"{path}: {error.strerror}", hint) from None
    except OSError as error:
        raise damaged(path, str(error.strerror)) from None
    except RecursionError:
        raise damaged(path, "nested too deeply") from None
    except ValueError as error:
        raise damaged(path, str(error)) from None
    if not isinstance(value, dict):
        raise damaged(path, "not a mapping")
    return value


def read_kept(path: Path) -> dict[str, Any]:
    """Reads a JSON file that every run has; raises UserError if it is missing or damaged."""
    try:
        return read_json(path)
    except FileNotFoundError:
        raise damaged(path, "missing") from None


def read_as(path: Path, make: Callable[[object], T]) -> T:
    """A file's content by `make`; UserError if it is damaged, FileNotFoundError for none."""
    try:
        return make(read_json(path))
    except Unfit as error:
        raise damaged(path, str(error)) from None


def known_as(path: Path, make: Callable[[object], T]) -> T | None:
    """Reads a file as `read_as` does; None if there is none."""
    try:
        return read_as(path, make)
    except FileNotFoundError:
        return None


def known_state(folder: Path) -> RunState | None:
    """Reads the state of the run in a folder, as known here; None if there is none."""
    return known_as(folder / "state.json", RunState.from_json)


def known_task(folder: Path) -> TaskState | None:
    """Reads the state of the task, or the setup, in a folder; None if there is none."""
    from fairway_agent.state_files import TaskState  # a list of runs needs none

    return known_as(folder / "state.json", TaskState.from_json)


def removed(path: Path) -> UserError | None:
    """Returns the error for a file that is missing because its run was removed just now; None if
    the run exists, or the file belongs to none."""
    for folder in (path, *path.parents):
        if (folder.parent.parent.name, folder.parent.name) == (".fairway", "runs"):
            if folder.exists():
                return None
            message, hint = f"there is no run `{folder.name}`", "list them: fairway list"
            return UserError.of("unknown-run", message, hint)
    return None


def damaged(path: Path, why: str) -> UserError:
    """Returns the error for a file of a run that cannot be read."""
    if (gone := removed(path)) is not None:
        return gone
    hint = f"if it is no longer needed, remove the run's folder: {path.parent}"
    return UserError.of("damaged-run", f"{path}: damaged: {why}", hint)


def read_plan(folder: Path) -> RunPlan:
    """The plan of the run in a folder; UserError where it is damaged, or of a newer release."""
    from fairway_agent.spec import RunPlan

    return _kept(folder / "plan.json", RunPlan.from_json)


def read_retry(folder: Path) -> Retry:
    """Reads which tasks run again; raises UserError if the file is damaged or missing."""
    from fairway_agent.spec import Retry

    return _kept(folder / "retry.json", Retry.from_json)


def _kept(path: Path, make: Callable[[object], T]) -> T:
    try:
        return read_as(path, make)
    except FileNotFoundError:
        raise damaged(path, "missing") from None


def read_specs(path: Path) -> Iterator[TaskSpec]:
    """Every task of a file of the folder, read when it is wanted; UserError where it is damaged,
    FileNotFoundError where there is none."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                yield TaskSpec.from_json(json.loads(line))
    except FileNotFoundError:
        raise
    except RecursionError:
        raise damaged(path, "nested too deeply") from None
    except (OSError, ValueError, Unfit) as error:
        raise damaged(path, str(error)) from None


def read_last(folder: Path) -> Iterator[TaskSpec]:
    """The task of `finally:`, where the job has one."""
    path = folder / "finally.jsonl"
    return read_specs(path) if path.exists() else iter(())
