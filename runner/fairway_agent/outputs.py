"""Which files of a task are kept when it has ended. Standard library only."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fairway_agent.task_spec import Output


def collect(written: Path, kept: Path, outputs: Mapping[str, Output], *, succeeded: bool) -> None:
    """Moves what a task wrote to where it is kept.

    `outputs` has for each id the `pattern` of its files below `written`, and `when` they
    are kept: always, success or failure. Whatever is not kept stays where it was written.
    """
    outcome = "success" if succeeded else "failure"
    for name, output in outputs.items():
        if output.when not in ("always", outcome):
            continue
        for file in _matching(written, output.pattern):
            target = kept / name / _below(file.relative_to(written).as_posix(), name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            file.replace(target)


def _matching(folder: Path, pattern: str) -> Iterator[Path]:
    # `**` at the end means every file below, as people write it; pathlib would give folders.
    whole = pattern + "/*" if pattern.endswith("**") else pattern
    for path in sorted(folder.glob(whole)):
        if path.is_file() or path.is_symlink():
            yield path


def _below(path: str, name: str) -> str:
    """The path without the output's own folder, which its id stands for."""
    return path.removeprefix(name + "/") if path.startswith(name + "/") else os.path.normpath(path)
