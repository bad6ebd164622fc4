"""The outputs of a run: which files there are, and each of them by its path in the run."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.runs.folder import chosen_task, task_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_runner.runs.store import Run

MOST = 1000  # files that are listed at once


def outputs(run: Run, start: int = 0) -> tuple[list[dict[str, Any]], bool]:
    """The files that tasks have kept, by task and path, with their sizes in bytes: MOST of them
    from one on, and whether there are more."""
    found = list(islice(_files(run), start, start + MOST + 1))
    return found[:MOST], len(found) > MOST


def _files(run: Run) -> Iterator[dict[str, Any]]:
    for index in range(run.record.tasks):
        base, task = run.task_folder(index) / "outputs", task_name(run, index)
        for parent, folders, names in os.walk(base):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                if path.is_file() and not path.is_symlink():
                    relative = f"{task}/{path.relative_to(base).as_posix()}"
                    yield {"path": relative, "size": path.stat().st_size}


def output(run: Run, path: str) -> Path:
    """The file of that path, TASK/OUTPUT/…; UserError where it is none of the run's outputs."""
    task, *parts = PurePosixPath(path).parts or ("",)
    if parts and ".." not in parts:
        base = (run.task_folder(chosen_task(run, task)) / "outputs").resolve()
        with suppress(OSError, ValueError):  # what no file can be called
            file = base.joinpath(*parts).resolve()
            if file.is_relative_to(base) and file.is_file():
                return file
    message, hint = f"{run.id} has no output `{path}`", "the run's page lists them"
    raise UserError.of("unknown-output", message, hint)
