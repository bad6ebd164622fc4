"""Outputs that tasks keep: those without a file, the files of the others, and links among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairway_agent.quick import dataclass
from fairway_core.findings import printable
from fairway_runner.engines.outage import warn
from fairway_runner.quantities import format_names
from fairway_runner.runs.folder import begun_steps
from fairway_runner.runs.records import has_steps, read_last, read_specs

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder

_CHUNK = 1 << 20


def expected(run: RunFolder) -> Iterator[tuple[int, str]]:
    """Yields the number of each task, with each output that it keeps on success."""
    path = run.folder / "tasks.jsonl"
    first = next(read_specs(path), None) if path.exists() else None
    count = run.record.tasks - run.has_last
    # The tasks of a sweep have the same outputs.
    for spec, indices in (
        (first, range(count)),
        (next(read_last(run.folder), None), range(count, run.record.tasks)),
    ):
        outputs = spec.outputs.items() if spec is not None else ()
        names = [name for name, each in outputs if each.when != "failure"]
        yield from ((index, name) for index in indices for name in names)


def empty_outputs(run: RunFolder) -> list[dict[str, Any]]:
    """Returns the outputs without a file of tasks that have succeeded: `run_id`, `task` and
    `output`. For a run of several steps, those of its steps."""
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
    from fairway_agent.outputs import empty_message  # most runs have none

    (task, names), more = tasks[0], len(tasks) - 1
    others = f", and outputs of {more:,} more task{'s' * (more > 1)}" if more else ""
    return f"{task}: {empty_message(names)}{others}"


class OutputPath(NamedTuple):
    """One path below a task's outputs that is no folder. `link` is where it leads from its own
    folder, if it is a link to no file; `is_fit` is False if nothing of it may be read."""

    path: Path
    link: str = ""
    is_fit: bool = True


def walk_outputs(folder: Path, outputs: Path) -> Iterator[OutputPath]:
    """Yields the paths below a folder that is, or is among, a task's outputs, in order. Links are
    followed to these only: jobs write what they like, on other machines and for other people, and
    elsewhere are files that are not theirs to read."""
    if leads_out(folder, outputs):
        yield OutputPath(folder, is_fit=False)
        return
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in sorted([*names, *links])):
            is_link = path.is_symlink()
            if is_link and leads_out(path, outputs):
                yield OutputPath(path, is_fit=False)
            elif path.is_file():
                yield OutputPath(path)
            elif is_link:
                # Without the links on the way, which may not be the same where it is copied to.
                leads_to = os.path.relpath(os.path.realpath(path), os.path.realpath(parent))
                yield OutputPath(path, link=leads_to)
            else:
                yield OutputPath(path, is_fit=False)


def say_left_out(names: Sequence[str]) -> None:
    """Warns of these outputs, which are not copied."""
    if names:
        text = "left out: %s; only files, and links to a task's own outputs, are copied"
        warn(text, printable(format_names(names)))


def leads_out(path: Path, outputs: Path) -> bool:
    """Returns True if a path leads out of a task's outputs by links, the outputs' own folder
    included, or by `..`."""
    top = outputs.parent.resolve() / outputs.name
    return not Path(os.path.realpath(path)).is_relative_to(top)


def files_of(output: Path) -> Iterator[Path]:
    """Yields the files of one output of a task, in the order of their paths."""
    found = walk_outputs(output, output.parent)
    return (each.path for each in found if each.is_fit and not each.link)


@dataclass(frozen=True)
class RunOutput:
    """One output of one task. `bring` downloads its files; raises UserError if there are none."""

    run: RunFolder
    task: int
    output: str
    bring: Callable[[], None]

    @property
    def path(self) -> str:
        """Path of the output from the parent of all runs' folder, equal on every machine."""
        return f"runs/{self.run.id}/tasks/{self.run.task_name(self.task)}/outputs/{self.output}"

    @property
    def folder(self) -> Path:
        """Folder of the output on this machine."""
        return self.run.folder.parents[1] / self.path

    def digest(self) -> str:
        """Returns a digest of its files' paths and contents."""
        import hashlib  # loads OpenSSL, which a look at a run does not need

        digest = hashlib.sha256()
        for path in files_of(self.folder):
            name = path.relative_to(self.folder).as_posix()
            digest.update(f"{path.stat().st_size} {name}\0".encode("utf-8", "surrogateescape"))
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    digest.update(data)
        return digest.hexdigest()[:16]
