"""Copies of the outputs that the tasks of a run keep, for the user."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairway_agent.outputs import draft_of, make_folder, obstacle
from fairway_agent.quick import dataclass
from fairway_boot.files import copy_file
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import Progress, no_progress
from fairway_runner.quantities import format_names
from fairway_runner.runs.folder import chosen_task
from fairway_runner.runs.output_files import expected, say_left_out, walk_outputs
from fairway_runner.runs.records import has_steps, recorded_steps

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run

_NOTHING = "nothing-to-fetch"


@dataclass(frozen=True)
class Fetched:
    """Result of a fetch: the paths copied to a folder, their size in bytes, and the number of files
    that were there. `lacking` lists outputs of succeeded tasks that have no file: `run_id`, `task`,
    `output`, and the flag `was_empty` for an output that was empty when the task ended."""

    folder: Path
    files: tuple[str, ...]
    size: int
    unchanged: int
    lacking: tuple[Mapping[str, Any], ...] = ()


def fetch(
    run: Run,
    folder: Path,
    task: str | int | None = None,
    *,
    force: bool = False,
    arrived: Progress = no_progress,
) -> Fetched:
    """Copies the outputs and logs of all tasks, or of one, to `<folder>/[<step>/]<task>/`, each
    file atomically; `task` may be a step. An identical existing file stays. A warning names links
    that lead out of a task's outputs, and pipes. Raises UserError, with nothing copied, for a
    different file, unless `force` replaces it. `arrived` is called with the number of downloaded
    files and of all."""
    if has_steps(run.folder):
        return _fetch_steps(run, folder, task, force=force, arrived=arrived)
    tasks = range(run.record.tasks) if task is None else [chosen_task(run, task)]
    run.engine.collect(run, tasks, arrived)
    found = [file for index in tasks for file in _kept(run, index)]
    wanted = [file for file in found if file.is_fit]
    if task is None and (run.folder / "setup" / "log.txt").exists():
        wanted.insert(0, _File(run.folder / "setup" / "log.txt", "setup/log.txt", is_log=True))
    if not wanted:
        message = f"{run.id} has no outputs or logs yet"
        raise UserError.of(_NOTHING, message, f"see its state: fairway show {run.id}")
    say_left_out([file.name for file in found if not file.is_fit])
    new = [file for file in wanted if not _is_same(file, folder)]
    places = [folder / file.name for file in new]
    there = [obstacle(folder, place.parent) or place for place in places]
    others = [each for each in dict.fromkeys(there) if os.path.lexists(each)]
    if others and not force:
        names = format_names([str(each.relative_to(folder)) for each in others])
        message = f"other files already exist in {folder}: {names}"
        hint = "choose another folder with --to, or replace them with --force"
        raise UserError.of("existing-files", message, hint, exit_code=3)
    try:
        size = _bring_all(new, wanted, folder, is_mirror=not runs_here(run.record.engine))
    except OSError as error:
        place = error.filename2 or error.filename or folder
        message = f"{place}: cannot be written: {error.strerror}"
        raise UserError.of("unwritable-folder", message, "choose another with --to") from None
    lacking = []
    for index, name in expected(run):
        if index not in tasks:
            continue
        status, kept = run.task_status(index), run.task_folder(index) / "outputs" / name
        if status.state == "succeeded" and not (kept.is_dir() and any(kept.iterdir())):
            facts = {"run_id": run.id, "task": run.task_name(index), "output": name}
            lacking.append({**facts, "was_empty": name in (status.empty_outputs or ())})
    files = tuple(file.name for file in new)
    return Fetched(folder, files, size, len(wanted) - len(new), tuple(lacking))


def _fetch_steps(
    run: Run, folder: Path, task: str | int | None, *, force: bool, arrived: Progress
) -> Fetched:
    steps = recorded_steps(run.folder)
    wanted = steps if task is None else [steps[chosen_task(run, task)]]
    own = {each.name: type(run)(run.folder.with_name(each.run)) for each in wanted}
    begun = {name: each for name, each in own.items() if (each.folder / "run.json").exists()}
    files: list[str] = []
    lacking: list[Mapping[str, Any]] = []
    size = unchanged = 0
    for name, each in begun.items():
        each.refresh(logs=True)
        try:
            found = fetch(each, folder / name, force=force, arrived=arrived)
        except UserError as error:
            if error.findings[0].id != _NOTHING:
                raise
            continue  # it waits, or was left out; the others may have outputs
        files += [f"{name}/{file}" for file in found.files]
        lacking += found.lacking
        size, unchanged = size + found.size, unchanged + found.unchanged
    if not files and not unchanged:
        message = f"no step of {run.id} has kept anything yet"
        if task is not None:
            message = f"the step {task} of {run.id} has kept nothing yet"
        raise UserError.of(_NOTHING, message, f"see its state: fairway show {run.id}")
    return Fetched(folder, tuple(files), size, unchanged, tuple(lacking))


class _File(NamedTuple):
    source: Path
    name: str
    link: str = ""
    is_fit: bool = True
    is_log: bool = False


def _kept(run: Run, index: int) -> Iterator[_File]:
    log = run.log(index)
    task = run.task_name(index)
    if log.exists():
        yield _File(log, f"{task}/log.txt", is_log=True)
    outputs = run.task_folder(index) / "outputs"
    for path, link, is_fit in walk_outputs(outputs, outputs):
        yield _File(path, f"{task}/{path.relative_to(outputs).as_posix()}", link, is_fit)


def _is_same(file: _File, folder: Path) -> bool:
    source, target = file.source, folder / file.name
    if obstacle(folder, target.parent) is not None:
        return False
    if file.link or target.is_symlink():
        return target.is_symlink() and os.readlink(target) == file.link  # noqa: PTH115 - as text
    if not target.is_file():
        return False
    return source.samefile(target) or filecmp.cmp(source, target, shallow=False)


def _bring_all(
    new: Sequence[_File], wanted: Sequence[_File], folder: Path, *, is_mirror: bool
) -> int:
    """Creates the missing ones of these files; returns their size in bytes. A file that a task has
    kept under several names is one here too. One from the mirror of a remote run is hard-linked: if
    the user changes it, the next fetch renews the mirror. Outputs of this machine exist only once,
    and are copied."""
    made = {file.name for file in new}
    there = {_same_file(f.source): folder / f.name for f in wanted if f.name not in made}
    size = 0
    for file in sorted(new, key=lambda each: each.source.is_symlink()):
        source, target = file.source, folder / file.name
        known = there.get(_same_file(source))
        if known is None and is_mirror and not (file.is_log or source.is_symlink()):  # logs grow
            known = source
        make_folder(folder, target.parent)
        size += _bring(file, target, known)
        there.setdefault(_same_file(source), target)
    return size


def _same_file(path: Path) -> tuple[int, int] | Path:
    """Returns a key that all names of one file share, and links to it too."""
    try:
        status = path.stat()
    except OSError:  # a broken link
        return path
    return status.st_dev, status.st_ino


def _bring(file: _File, target: Path, known: Path | None) -> int:
    """Creates one file next to its destination and moves it there; returns its size in bytes. It
    becomes another name of a `known` one with the same content, if the file system supports
    that."""
    draft = draft_of(target, f".{os.getpid()}")
    try:
        if file.link:
            draft.symlink_to(file.link)
        elif known is None or not _linked(known, draft):
            copy_file(file.source, draft)
        size = os.lstat(draft).st_size
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return size


def _linked(source: Path, target: Path) -> bool:
    """Hard-links the target to the source; returns False where the file system cannot."""
    try:
        target.hardlink_to(source)
    except OSError:
        return False
    return True
