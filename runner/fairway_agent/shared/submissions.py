"""What was asked of a scheduler for a run: a file in its folder, `slurm.json` of Slurm's.

A submission has parts, each a job or an array of the scheduler's: the tasks of one shape, and the
task of `finally:`. A part's mark stands in its comment, by which it is found again whatever
befell the program that submitted it. Standard library only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from fairway_agent import fields, record, run_files
from fairway_agent.fields import Fields
from fairway_agent.limits import Over
from fairway_agent.share import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.task_spec import TaskSpec

    Shape = tuple[int, int, int | None, int | None]

SLURM, KUBERNETES = "slurm.json", "kubernetes.json"
_FILES = (SLURM, KUBERNETES)
_INDEX = "tasks.offsets"
STAGES = ("tasks", "finally")


@dataclass(frozen=True)
class Part:
    """Tasks of one `stage` (`tasks` or `finally`) that the scheduler has as one job.

    `indices` are the tasks' numbers; `job` is "" until it is submitted. As an array each task's
    number is its element's. `gpus` and `cores` are what each takes of its node, where that is not
    the whole, and `part` how large a part of the node that is.
    """

    stage: str
    number: int
    indices: list[int]
    nodes: int
    width: int
    job: str = ""
    gpus: int | None = None
    cores: int | None = None
    part: float | None = None

    @property
    def wanted(self) -> Wanted | None:
        """What each task takes of its node; None for whole nodes."""
        wanted = Wanted(self.gpus, self.cores)
        return None if wanted == Wanted() else wanted

    @classmethod
    def from_json(cls, facts: object) -> Part:
        """Unfit for what is not one."""
        part = Fields(facts, "a part")
        indices = part.each("indices")
        if part.facts.get("stage") not in STAGES:
            raise part.unfit("stage")
        if not indices or not all(type(each) is int and each >= 0 for each in indices):
            raise part.unfit("indices")
        return cls(
            stage=part.text("stage"),
            number=part.count("number"),
            indices=indices,
            nodes=part.count("nodes"),
            width=part.count("width"),
            job=part.text("job"),
            gpus=part.count_or_none("gpus"),
            cores=part.count_or_none("cores"),
            part=part.span_or_none("part"),
        )

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
    """The last submission: its number, its parts, whether the scheduler has them all, and the name
    of the file."""

    submission: int
    parts: list[Part]
    complete: bool
    file: str = SLURM

    @classmethod
    def from_json(cls, facts: object, file: str = SLURM) -> Submission:
        """Unfit for what is not one."""
        found = Fields(facts, "the submission")
        parts = [Part.from_json(each) for each in found.each("parts")]
        return cls(found.count("submission"), parts, found.flag("complete"), file)

    def write(self, folder: Path) -> None:
        """Replaces the file."""
        facts = asdict(self)
        record.write_json(folder / facts.pop("file"), facts)


def read(folder: Path) -> Submission | None:
    """The last submission of a run; None before the first. Fault where the file is damaged."""
    for file in _FILES:
        found = fields.read(folder / file, partial(Submission.from_json, file=file))
        if found is not None:
            return found
    return None


def cancelled(folder: Path) -> int:
    """The submission that was cancelled last; -1 where none was."""
    found = fields.read(folder / "cancelled.json", _number)
    return -1 if found is None else found


def cancel(folder: Path, submission: int) -> None:
    """Notes that this submission is to end."""
    record.write_json(folder / "cancelled.json", {"submission": submission})


def limited(folder: Path, submission: int) -> Over | None:
    """The limit of its own that this submission is over; None where it is over none."""
    return fields.read(folder / "limited.json", lambda facts: _over(facts, submission))


def _number(facts: object) -> int:
    return Fields(facts, "the note").count("submission")


def _over(facts: object, submission: int) -> Over | None:
    note = Fields(facts, "the note")
    if note.count("submission") != submission:
        return None
    return Over(note.text("limit"), note.text("reason"))


def limit(folder: Path, submission: int, over: Over) -> None:
    """Notes that this submission is over a limit, and is to end."""
    record.write_json(folder / "limited.json", {"submission": submission, **asdict(over)})


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
