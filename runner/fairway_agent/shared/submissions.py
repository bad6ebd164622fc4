"""What was asked of a scheduler for a run, and which tasks that is.

A submission has parts, each a job or an array of the scheduler's: the tasks of one shape, and the
task of `finally:`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import control, run_files
from fairway_agent.share import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.task_spec import TaskSpec

    Shape = tuple[int, int, int | None, int | None]

_INDEX = "tasks.offsets"


@dataclass(frozen=True)
class Submission:
    """The last submission: its number, its parts, and whether the scheduler has them all."""

    submission: int
    parts: list[Part]
    complete: bool

    def write(self, folder: Path) -> None:
        """Replaces what the run's control record says of it."""
        parts = tuple(self.parts)
        control.change(folder, self.submission, parts=parts, complete=self.complete)


def read(folder: Path) -> Submission | None:
    """The last submission of a run; None before the first. Fault where the file is damaged."""
    known = control.read(folder)
    return Submission(known.submission, [*known.parts], known.complete) if known.parts else None


def forget(folder: Path, submission: int) -> None:
    """The scheduler has nothing of it."""
    control.change(folder, submission, parts=(), complete=False)


def write_index(folder: Path) -> Sequence[Shape]:
    """Lets a task be read without all of them; returns the shape of each."""
    tasks = folder / "tasks.jsonl"
    run_files.write_index(tasks, folder / _INDEX)
    return [shape_of(spec) for spec in run_files.read_specs(tasks)]


def shape_of(spec: TaskSpec) -> Shape:
    """The shape of a task, by which tasks are elements of one array: its nodes, its processes on
    each, and its GPUs and cores where it takes a part of one."""
    wanted = spec.wanted or Wanted()
    return spec.nodes, spec.processes_per_node, wanted.gpus, wanted.cores


def spec_of(folder: Path, stage: str, index: int) -> TaskSpec:
    """A task's own line of the plan."""
    path = folder / f"{stage}.jsonl"
    if stage == "tasks":
        return run_files.read_indexed(path, folder / _INDEX, index)
    return run_files.read_spec(path)
