"""What was asked of Slurm for a run: the file `slurm.json` in its folder. Standard library only.

A submission has parts, each a job or an array of Slurm's: the tasks of one shape, and the
task of `finally:`. A part's mark stands in its comment, by which it is found again whatever
befell the program that submitted it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fairway_agent import record, run_files
from fairway_agent.limits import Over

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.task_spec import TaskSpec

_FILE = "slurm.json"
_INDEX = "tasks.offsets"


@dataclass(frozen=True)
class Part:
    """Tasks of one `stage` (`tasks` or `finally`) that Slurm has as one job.

    `indices` are the tasks' numbers; `job` is "" until it is submitted. As an array each task's
    number is its element's.
    """

    stage: str
    number: int
    indices: list[int]
    nodes: int
    width: int
    job: str = ""

    def task_folder(self, run: Path, index: int) -> Path:
        """The folder of one of its tasks."""
        name = run_files.last_name(run) if self.stage == "finally" else None
        return run / "tasks" / (name or str(index))

    @property
    def is_array(self) -> bool:
        """Whether it has elements."""
        return len(self.indices) > 1

    def element(self, index: int) -> tuple[str, int]:
        """The job and the element of a task."""
        return self.job, index if self.is_array else -1

    def comment(self, run: str, submission: int) -> str:
        """What marks the job as this part."""
        return f"fairway {run} {self.stage} {self.number} {submission}"


@dataclass(frozen=True)
class Submission:
    """The last submission: its number, its parts, and whether Slurm has them all."""

    submission: int
    parts: list[Part]
    complete: bool

    def write(self, folder: Path) -> None:
        """Replaces the file."""
        record.write_json(folder / _FILE, asdict(self))


def read(folder: Path) -> Submission | None:
    """The last submission of a run; None before the first."""
    value = record.read_json(folder / _FILE)
    if not value:
        return None
    parts = [Part(**each) for each in value["parts"]]
    return Submission(int(value["submission"]), parts, bool(value["complete"]))


def cancelled(folder: Path) -> int:
    """The submission that was cancelled last; -1 where none was."""
    return int(record.read_json(folder / "cancelled.json").get("submission", -1))


def cancel(folder: Path, submission: int) -> None:
    """Notes that this submission is to end."""
    record.write_json(folder / "cancelled.json", {"submission": submission})


def limited(folder: Path, submission: int) -> Over | None:
    """The limit of its own that this submission is over; None where it is over none."""
    found = record.read_json(folder / "limited.json")
    if found.get("submission") != submission:
        return None
    return Over(str(found["limit"]), str(found["reason"]))


def limit(folder: Path, submission: int, over: Over) -> None:
    """Notes that this submission is over a limit, and is to end."""
    record.write_json(folder / "limited.json", {"submission": submission, **asdict(over)})


def write_index(folder: Path) -> Sequence[tuple[int, int]]:
    """Lets a task be read without all of them; the shape of each: its nodes, and its processes on
    each."""
    tasks = folder / "tasks.jsonl"
    run_files.write_index(tasks, folder / _INDEX)
    return [(spec.nodes, spec.processes_per_node) for spec in run_files.read_specs(tasks)]


def spec_of(folder: Path, stage: str, index: int) -> TaskSpec:
    """A task's own line of the plan."""
    path = folder / f"{stage}.jsonl"
    if stage == "tasks":
        return run_files.read_indexed(path, folder / _INDEX, index)
    return run_files.read_spec(path)
