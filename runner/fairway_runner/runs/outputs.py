"""Outputs that a run's tasks keep: what lies in each, and which are empty."""

from __future__ import annotations

import hashlib
import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.outputs import said_empty
from fairway_agent.quick import dataclass
from fairway_runner.runs.folder import begun_steps
from fairway_runner.runs.records import has_steps, read_last, read_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fairway_runner.runs.folder import RunFolder


_CHUNK = 1 << 20


@dataclass(frozen=True)
class KeptOutput:
    """One output of one task. `bring` brings its files here; UserError where there are none."""

    run: RunFolder
    task: int
    output: str
    bring: Callable[[], None]

    @property
    def path(self) -> str:
        """Path of the output below the parent of the folder of all runs, on every machine."""
        return f"runs/{self.run.id}/tasks/{self.run.task_name(self.task)}/outputs/{self.output}"

    @property
    def folder(self) -> Path:
        """Folder of the output on this machine."""
        return self.run.folder.parents[1] / self.path

    def digest(self) -> str:
        """Returns a digest of its files' paths and contents."""
        digest = hashlib.sha256()
        for path in files_of(self.folder):
            name = path.relative_to(self.folder).as_posix()
            digest.update(f"{path.stat().st_size} {name}\0".encode("utf-8", "surrogateescape"))
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    digest.update(data)
        return digest.hexdigest()[:16]


def files_of(folder: Path) -> Iterator[Path]:
    """The files below a folder, in the order of their paths; links that lead nowhere are none."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (path for name in sorted(names) if (path := Path(parent, name)).is_file())


def expected(run: RunFolder) -> Iterator[tuple[int, str]]:
    """The number of each task, with each output that it keeps when it has succeeded."""
    path = run.folder / "tasks.jsonl"
    first = next(read_specs(path), None) if path.exists() else None
    count = run.record.tasks - run.has_last
    # Those of a sweep have the same outputs.
    for spec, indices in (
        (first, range(count)),
        (next(read_last(run.folder), None), range(count, run.record.tasks)),
    ):
        outputs = spec.outputs.items() if spec is not None else ()
        names = [name for name, each in outputs if each.when != "failure"]
        yield from ((index, name) for index in indices for name in names)


def empty_outputs(run: RunFolder) -> list[dict[str, Any]]:
    """The outputs without a file of tasks that have succeeded: `run_id`, `task` and `output`. Those
    of a run of several steps are those of its steps."""
    if has_steps(run.folder):
        return [each for step in begun_steps(run) for each in empty_outputs(step)]
    return [
        {"run_id": run.id, "task": run.task_name(index), "output": name}
        for index in dict.fromkeys(index for index, _ in expected(run))
        for name in run.task_status(index).empty_outputs or ()
    ]


def name_empty_outputs(run_id: str, found: Sequence[Mapping[str, Any]]) -> str:
    """Names the empty outputs of one task, and says how many more tasks have some; "" for none."""
    tasks = [
        (f"task {task}" if own == run_id else f"task {task} of {own}", [e["output"] for e in some])
        for (own, task), some in groupby(found, key=lambda each: (each["run_id"], each["task"]))
    ]
    if not tasks:
        return ""
    (task, names), more = tasks[0], len(tasks) - 1
    others = f", and outputs of {more:,} more task{'s' * (more > 1)}" if more else ""
    return f"{task}: {said_empty(names)}{others}"
