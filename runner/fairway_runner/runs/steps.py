"""A run of several steps: each is a run of its own beside it, and a task of the whole.

steps.json        the steps, in an order in which each is behind those that it comes after
steps.lock        held by the command that begins steps
steps.cancelled   there once the whole is to end
tasks/N/          where a step stands, and the log of one that is a single task
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fairway_agent.records import Fields, Unfit
from fairway_core.findings import UserError
from fairway_runner.runs.records import damaged, is_run_id, known_task, read_json, read_kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class _RunFolder(Protocol):
    """A run by its folder."""

    def __init__(self, folder: Path) -> None: ...

    @property
    def folder(self) -> Path:
        """Where it lies."""

    @property
    def id(self) -> str:
        """Its ID."""

    def task_folder(self, index: int) -> Path:
        """The folder of a task."""


R = TypeVar("R", bound=_RunFolder)

FILE, LOCK, CANCELLED = "steps.json", "steps.lock", "steps.cancelled"
ENGINE = "steps"
"""What the record of such a run has in place of an engine's name."""


@dataclass(frozen=True)
class StepRecord:
    """One step: its name, the ID of its run, its target; and by the name of each step that it comes
    after how that must have ended: a word, or exit codes. `waits` is whether its run can wait for
    these on its target: it is submitted while they go on."""

    name: str
    run: str
    target: str
    after: Mapping[str, str | list[int]]
    waits: bool = False

    def is_met(self, other: str, state: str, exit_code: int | None) -> bool:
        """True if another step has ended as this one requires."""
        from fairway_agent.predecessors import is_met  # a list of runs asks nothing of the kind

        return is_met(self.after[other], state, exit_code)


def has_steps(folder: Path) -> bool:
    """True if the run of a folder has several steps."""
    return (folder / FILE).exists()


def is_of(folder: Path, whole: str) -> bool:
    """True if the folder is a run's, and this run is a step of the given run."""
    try:
        step = read_json(folder / "provenance.json").get("step")
    except FileNotFoundError:
        return False
    return isinstance(step, dict) and step.get("of") == whole


def begun(run: R) -> list[R]:
    """The runs of its steps that have begun; none of a run without steps."""
    known = read(run.folder) if has_steps(run.folder) else ()
    folders = [run.folder.with_name(each.run) for each in known]
    return [type(run)(folder) for folder in folders if is_of(folder, run.id)]


def to_begin(run: _RunFolder) -> list[str]:
    """The names of its steps that no target has yet: what follows the run begins them."""
    names = []
    for index, step in enumerate(read(run.folder) if has_steps(run.folder) else ()):
        known = known_task(run.task_folder(index))
        is_settled = known is not None and known.is_final
        if not is_settled and not is_of(run.folder.with_name(step.run), run.id):
            names.append(step.name)
    return names


def text(steps: Sequence[StepRecord]) -> str:
    """As the file has them."""
    return json.dumps({"steps": [asdict(each) for each in steps]}, indent=1)


def read(folder: Path) -> list[StepRecord]:
    """Reads the steps of a run; raises UserError if the file is damaged or missing."""
    path = folder / FILE
    try:
        return [_step(each) for each in Fields(read_kept(path), "the steps").each("steps")]
    except Unfit as error:
        raise damaged(path, str(error)) from None


def require_one_job(run: R) -> R:
    """The run; UserError for one of several steps."""
    if has_steps(run.folder):
        known = ", ".join(each.run for each in read(run.folder))
        message = f"{run.id} is a run of several steps"
        raise UserError.of("several-steps", message, f"name the run of one of them: {known}")
    return run


def _step(facts: Any) -> StepRecord:
    fields = Fields(facts, "a step")
    run = fields.text("run")
    if not is_run_id(run):  # it is a folder's name too
        raise fields.unfit("run")
    after = fields.mapping("after")
    for name, wanted in after.items():
        codes = wanted if isinstance(wanted, list) else []
        if not isinstance(wanted, str) and not (codes and all(type(c) is int for c in codes)):
            raise Fields(after, "`after` of a step").unfit(name)
    name, target, waits = fields.text("name"), fields.text("target"), fields.flag("waits")
    return StepRecord(name, run, target, after, waits)
