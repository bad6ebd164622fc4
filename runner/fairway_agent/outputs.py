"""Outputs of a task: which files are kept, and the best tasks of other runs as inputs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.records import excerpt
from fairway_boot.files import AgentError, copy_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_agent.spec import Output, RunOutputInput, RunPlan
    from fairway_agent.state_files import BestTasks

BROUGHT = "from-tasks"
"""Folder to which Batch downloads the outputs of all other tasks for a run's last task."""


def collect(written: Path, kept: Path, outputs: Mapping[str, Output], *, succeeded: bool) -> None:
    """Moves a task's files to where they are kept. `outputs` has for each id the patterns of its
    files below `written`, and `when` they are kept: always, on success or on failure. A file that
    belongs to several outputs is kept in each. Files of no output stay where they were written, and
    those outside of `written`, to whose folder a link leads, are copied."""
    outcomes = ("always", "success" if succeeded else "failure")
    # By resolved paths: links give a file several names, of which an output keeps the first.
    chosen = {
        name: {_true_path(file): file for file in reversed([*_chosen(written, output)])}
        for name, output in outputs.items()
        if output.when in outcomes
    }
    left, top = Counter(chain.from_iterable(chosen.values())), written.resolve()
    for name, files in chosen.items():
        for real, file in files.items():
            left[real] -= 1
            path, own = file.relative_to(written).as_posix(), f"{name}/"
            # Without the output's own folder, which its ID replaces.
            below = path.removeprefix(own) if path.startswith(own) else os.path.normpath(path)
            target = kept / name / below
            make_room(kept, target)
            if left[real] or not real.is_relative_to(top):
                copy_file(real, target, follow_symlinks=False)
            else:
                shutil.move(real, target, copy_file)


def make_room(top: Path, path: Path) -> None:
    """Makes the folder of a path below `top`, and removes what is at the path, even a folder."""
    make_folder(top, path.parent)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def make_folder(top: Path, folder: Path) -> None:
    """Makes a folder below `top`, in place of a link or file on the way: what comes later is not
    written through a link that came earlier."""
    if (found := obstacle(top, folder)) is not None:
        found.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def obstacle(top: Path, folder: Path) -> Path | None:
    """Returns the link or file that is on the way from `top` to a folder below it, or there."""
    below = folder.relative_to(top)
    way = [top / each for each in reversed((below, *below.parents))]
    return next((each for each in way[1:] if each.is_symlink() or each.is_file()), None)


def empty_outputs(written: Path, outputs: Mapping[str, Output]) -> tuple[str, ...]:
    """Returns the outputs without a file below `written`, among those kept on success."""
    wanted = {name: each for name, each in outputs.items() if each.when != "failure"}
    return tuple(name for name, one in wanted.items() if next(_chosen(written, one), None) is None)


def empty_message(names: Collection[str]) -> str:
    """Formats the message that these outputs are empty.

    >>> empty_message(["model"]), empty_message(["model", "plots"])
    ('the output `model` is empty', 'the outputs `model`, `plots` are empty')
    """
    listed = ", ".join(f"`{name}`" for name in names)
    return f"the outputs {listed} are empty" if len(names) > 1 else f"the output {listed} is empty"


def drop_excluded(written: Path, outputs: Mapping[str, Output]) -> None:
    """Removes the files that outputs exclude and no other output keeps: Batch, which uploads them
    from there, knows only patterns of files to keep. Targets of links are left alone."""
    listed = [output for output in outputs.values() if output.exclude]
    if not listed:
        return
    top = written.resolve()
    kept = {_true_path(file) for output in outputs.values() for file in _chosen(written, output)}
    for output in listed:
        for real in map(_true_path, _matching(written, output.patterns)):
            if real not in kept and real.is_relative_to(top):
                real.unlink(missing_ok=True)


def make_storable(written: Path) -> list[str]:
    """Renames files and folders to names that blobs can have, and removes pipes, sockets and
    dangling links, for one of which Batch would fail the task. Returns a sentence for each change.
    Source: Azure documentation, Naming and referencing containers, blobs, and metadata."""
    done = []
    for folder, folders, names in os.walk(written, topdown=False):
        for name in (*folders, *names):
            path, new = Path(folder, name), _storable(name)
            what = excerpt(path.relative_to(written))
            if not (path.is_file() or path.is_dir()):
                path.unlink()
                done.append(f"{what} is not kept: it is no file")
            elif new != name:
                while os.path.lexists(path.with_name(new)):
                    new += "_"
                path.rename(path.with_name(new))
                done.append(f"{what} is kept as {new[:100]}: storage takes no such name")
    return done


def _storable(name: str) -> str:
    """Returns the name with each byte that blob names forbid percent-encoded; of one that then is
    too long, both ends and its digest."""
    # Control characters, surrogates (which represent bytes that are not UTF-8), private or
    # unassigned code points, and a backslash, which becomes `/`.
    written = "".join(
        "".join(f"%{byte:02X}" for byte in os.fsencode(each))
        if unicodedata.category(each) in ("Cc", "Cs", "Co", "Cn") or each == "\\"
        else each
        for each in name
    )
    data = written.encode(errors="surrogateescape")
    if written == name or len(data) <= _LONGEST_NAME:
        return written
    import hashlib  # loads OpenSSL, which a look at a run does not need

    begin, end = (part.decode(errors="ignore") for part in (data[:100], data[-100:]))
    return f"{begin}~{hashlib.sha256(data).hexdigest()[:16]}~{end}"


_LONGEST_NAME = 240  # bytes: file systems allow 255, and a name that is taken is lengthened


def draft_of(file: Path, ending: str) -> Path:
    """Returns the path beside a file for its content until that is complete; no other file that is
    copied there has that name."""
    import hashlib  # as above

    digest = hashlib.sha256(os.fsencode(file.name)).hexdigest()[:32]
    return file.with_name(f".fairway-{digest}{ending}")


def lay_out(tasks: Path, to: Path) -> None:
    """Links the outputs of each task, `tasks`/TASK/outputs, at `to`/TASK; a task without outputs
    has no link. The links are relative, because a container may mount both folders elsewhere."""
    shutil.rmtree(to, ignore_errors=True)  # left by an earlier attempt
    to.mkdir(parents=True)
    for task in tasks.iterdir() if tasks.is_dir() else ():
        kept = task / "outputs"
        if task.name.isdecimal() and kept.is_dir():
            (to / task.name).symlink_to(os.path.relpath(kept, to))


def _chosen(written: Path, output: Output) -> Iterator[Path]:
    found = _matching(written, output.patterns)
    folders = {parent for file in found for parent in file.parents}
    for file in found:
        if file in folders:
            continue  # a link to a folder, of which files are kept under its name
        path = file.relative_to(written).as_posix()
        if not any(fnmatch(path, each) or fnmatch(file.name, each) for each in output.exclude):
            yield file


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    # A final `**` means every file below, as users expect; pathlib would return folders.
    globs = [each + "/*" if each.endswith("**") else each for each in patterns]
    found = {path for pattern in globs for path in folder.glob(pattern)}
    return sorted(path for path in found if path.is_file() or path.is_symlink())


def _true_path(file: Path) -> Path:
    """Returns a file's path with the links to folders resolved, but not a link that is the file."""
    return file.parent.resolve() / file.name


def decide_best(folder: Path, plan: RunPlan) -> BestTasks:
    """Returns the best tasks of other runs by the names of inputs, and chooses those not chosen
    yet. Raises AgentError if a run has none. The first task to begin writes the choice into the
    run's control record, so that all tasks, and a retry, read the same. Tasks that begin at the
    same time choose alike, because the other run has ended."""
    from fairway_agent import control  # who collects outputs decides nothing

    wanted = [each for each in plan.run_inputs if each.best is not None]
    known = dict(control.read(folder).best) if wanted else {}
    if missing := [each for each in wanted if each.name not in known]:
        known |= {each.name: _best(folder.parent, each) for each in missing}
        with suppress(OSError):  # with a full disk, the next caller decides again
            control.change(folder, plan.submission, best=known)
    return known


def _best(runs: Path, entry: RunOutputInput) -> tuple[int, float]:
    """Returns the number and value of the best task of the run that an input names. As with
    `fairway best`, only tasks count that succeeded and whose last value is finite."""
    from fairway_agent import job_facts, state_files
    from fairway_agent.metric_logs import best_of, diverged_words, final_value  # rarely needed

    assert entry.best is not None
    run, metric = runs / entry.path.split("/")[1], entry.best.metric
    try:
        pattern = re.compile(entry.best.pattern)
    except re.error as error:
        version = ".".join(map(str, sys.version_info[:2]))
        message = f"the pattern of the metric `{metric}` is none for Python {version}: {error}"
        hint = f"write it so that Python {version} takes it: {entry.best.pattern}"
        raise AgentError("bad-metric", message, hint) from None
    found = []
    for number in range(job_facts.read_plan(run).tasks - (run / "finally.jsonl").exists()):
        folder = run / "tasks" / str(number)
        state = state_files.read_task(folder)
        if state is not None and state.state == "succeeded":
            value = final_value(folder / "log.txt", metric, pattern)
            found += [] if value is None else [(value, number)]
    best, diverged = best_of(found, lower=entry.best.lower)
    if best is None:
        lack = f"no task of {run.name} that succeeded has printed `{metric}`"
        said = diverged_words(metric, diverged)
        message = f"{run.name} has no best task: {said}" if said else lack
        raise AgentError("no-metric", message, f"its pattern is: {entry.best.pattern}")
    value, number = best
    return number, value
