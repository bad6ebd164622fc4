"""Records in a run's folder: its submission, its states and its steps, and their readers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_agent.quick import dataclass
from fairway_agent.records import (
    FORMAT,
    OTHER_HINT,
    OTHER_RELEASE,
    Fields,
    Integer,
    InvalidRecord,
    JsonRecord,
    Moment,
    OtherVersion,
    Plain,
    section_of,
)
from fairway_agent.spec import Retry, RunPlan, TaskSpec
from fairway_agent.state_files import FINAL_STATES as FINAL_STATES
from fairway_agent.state_files import RunState, TaskState
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import HERE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.jobs.job import Job

    T = TypeVar("T")

_MOST_TASKS = 1_000_000  # ten times the largest sweep


@dataclass(frozen=True)
class RunRecord(JsonRecord, label="run.json"):
    """Record of a submission; `created` is in seconds since 1970."""

    VERSION = FORMAT

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
        """Raises InvalidRecord for too many tasks, and for an invalid pattern of a metric."""
        if self.tasks > _MOST_TASKS:
            raise found.invalid("tasks")
        for pattern in self.metrics.values():
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError):
                raise found.invalid("metrics") from None


SESSION = "dev"
"""Template of every session of `fairway dev`."""
LONGEST_ID = 63


def is_run_id(text: str) -> bool:
    """Returns True if a run can have that id, which is also a folder's name.

    >>> is_run_id("digits-7k2m9p"), is_run_id("../digits")
    (True, False)
    """
    return len(text) <= LONGEST_ID and re.fullmatch(r"[a-z][a-z0-9-]*", text) is not None


def settled_state(state: str, run_state: str) -> str:
    """Returns the state of a task or a setup; in a run that has ended, none is pending."""
    if run_state in FINAL_STATES and state not in FINAL_STATES:
        return "lost" if run_state == "lost" else "cancelled"
    return state


def read_json(path: Path) -> dict[str, Any]:
    """Reads a mapping from a file. Raises UserError if damaged, FileNotFoundError if missing."""
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


def facts_in(path: Path) -> dict[str, Any]:
    """Reads the mapping in a file, empty if there is none. Raises UserError for a damaged one."""
    try:
        return read_json(path)
    except FileNotFoundError:
        return {}


def legible_facts(path: Path) -> dict[str, Any]:
    """Reads the mapping in a file; an empty one if the file is missing or damaged."""
    try:
        return facts_in(path)
    except (UserError, OSError):
        return {}


def launcher_options(folder: Path) -> Mapping[str, Any]:
    """Returns the options of a run's job; none if its record is damaged."""
    return section_of(legible_facts(folder / "job.json"), "options")


def read_as(path: Path, make: Callable[[Any], T]) -> T:
    """Converts the content of a file with `make`. Raises the errors of `read_json`, and UserError
    for a record of another release."""
    try:
        return make(read_json(path))
    except OtherVersion as error:
        raise UserError.of(OTHER_RELEASE, f"{path}: {error}", OTHER_HINT) from None
    except InvalidRecord as error:
        raise damaged(path, str(error)) from None


def read_if_there(path: Path, make: Callable[[object], T]) -> T | None:
    """Reads a file as `read_as` does; None if it is missing."""
    try:
        return read_as(path, make)
    except FileNotFoundError:
        return None


def read_required(path: Path, make: Callable[[Any], T]) -> T:
    """Reads a file that every run has as `read_as` does. Raises UserError also if it is missing."""
    try:
        return read_as(path, make)
    except FileNotFoundError:
        raise damaged(path, "missing") from None


GONE = "its folder is gone"
"""Reason of a lost run whose files at its target were removed."""


def known_state(folder: Path) -> RunState:
    """Reads the state of the run in a folder, as known here; queued if there is none."""
    return read_if_there(folder / "state.json", RunState.from_json) or RunState()


def known_task(folder: Path) -> TaskState | None:
    """Reads the state of the task, or the setup, in a folder; None if there is none."""
    return read_if_there(folder / "state.json", TaskState.from_json)


def removed(path: Path) -> UserError | None:
    """Returns the error for a file whose run was removed just now; None for any other."""
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


@contextmanager
def writing(fault: str, hint: str, exit_code: int = 2) -> Iterator[None]:
    """Raises UserError, with the reason, if writing to a disk in the block fails."""
    try:
        yield
    except OSError as error:
        message = f"{fault}: {error.strerror}"
        raise UserError.of("unwritable-folder", message, hint, exit_code=exit_code) from None


def read_plan(folder: Path) -> RunPlan:
    """Reads a run's plan. Raises UserError if it is damaged, or of a newer release."""
    return read_required(folder / "plan.json", RunPlan.from_json)


def known_grace(folder: Path) -> float:
    """Returns the grace of a run's tasks; the default one if its plan is damaged."""
    try:
        return read_plan(folder).grace
    except UserError:
        return RunPlan("", "").grace


def read_job(folder: Path) -> Job:
    """Reads a run's job without its sweep. Raises UserError if its file is missing or damaged."""
    from pydantic import ValidationError

    from fairway_runner.jobs.job import Job

    def made(facts: dict[str, Any]) -> Job:
        try:
            return Job.model_validate({**facts, "sweep": None})
        except ValidationError as error:
            raise InvalidRecord(str(error.errors()[0]["msg"])) from None

    return read_required(folder / "job.json", made)


def read_retry(folder: Path) -> Retry:
    """Reads which tasks run again. Raises UserError if the file is damaged or missing."""
    return read_required(folder / "retry.json", Retry.from_json)


def read_specs(path: Path) -> Iterator[TaskSpec]:
    """Yields the tasks of a file. Raises UserError if damaged, FileNotFoundError if missing."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                yield TaskSpec.from_json(json.loads(line))
    except FileNotFoundError:
        raise
    except RecursionError:
        raise damaged(path, "nested too deeply") from None
    except (OSError, ValueError, InvalidRecord) as error:
        raise damaged(path, str(error)) from None


def read_last(folder: Path) -> Iterator[TaskSpec]:
    """Reads the task of `finally:`, if the job has one."""
    path = folder / "finally.jsonl"
    return read_specs(path) if path.exists() else iter(())


# Files of a run with steps: the steps in topological order; the lock of the command that starts
# steps; a mark that the run is to end. Each step is a run of its own, and a task of this run.
STEPS_FILE, STEPS_LOCK, STEPS_CANCELLED = "steps.json", "steps.lock", "steps.cancelled"
STEPS_ENGINE = "steps"
"""Name of the engine in the record of a run with steps."""


@dataclass(frozen=True)
class StepRecord(JsonRecord, label="a step"):
    """One step: its name, the ID of its run, its target; and for each step that it comes `after`
    the required end: a word, or exit codes. `waits` is True if its run can wait for these on its
    target: it is submitted while they are active."""

    name: str
    run: str
    target: str
    after: dict[str, str | list[Integer]]
    waits: bool = False

    def check(self, found: Fields) -> None:
        """Raises InvalidRecord for an invalid run ID, which names a folder too, and for a step to
        wait for without a required end."""
        if not is_run_id(self.run):
            raise found.invalid("run")
        if not all(self.after.values()):
            raise found.invalid("after")

    def is_met(self, other: str, state: str, exit_code: int | None) -> bool:
        """Returns True if another step has ended as this one requires."""
        from fairway_agent.dependencies import is_met  # listing runs does not need it

        return is_met(self.after[other], state, exit_code)


def has_steps(folder: Path) -> bool:
    """Returns True if the run of a folder has several steps."""
    return (folder / STEPS_FILE).exists()


def is_step_of(folder: Path, parent_run: str) -> bool:
    """Returns True if the folder is a run's, and this run is a step of the given run."""
    step = facts_in(folder / "provenance.json").get("step")
    return isinstance(step, dict) and step.get("of") == parent_run


def steps_text(steps: Sequence[StepRecord]) -> str:
    """Returns the text of the file with these steps."""
    return json.dumps({"steps": [each.to_json() for each in steps]}, indent=1)


def recorded_steps(folder: Path) -> list[StepRecord]:
    """Reads the steps of a run; none for a run of one job. Raises UserError if the file is damaged,
    or if the run is gone."""
    if folder.is_dir() and not has_steps(folder):
        return []
    return read_required(
        folder / STEPS_FILE,
        lambda facts: [*map(StepRecord.from_json, Fields(facts, "the steps").each("steps"))],
    )
