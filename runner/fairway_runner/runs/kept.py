"""What a task has kept, as later runs read it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_runner.runs.folder import RunFolder

_CHUNK = 1 << 20


@dataclass(frozen=True)
class KeptOutput:
    """One output of one task. `bring` sees to it that its files are on this machine; UserError
    where there are none."""

    run: RunFolder
    task: int
    output: str
    bring: Callable[[], None]

    @property
    def path(self) -> str:
        """Its folder, below the one in which the folder of all runs is; the same everywhere."""
        return f"runs/{self.run.id}/tasks/{self.run.task_name(self.task)}/outputs/{self.output}"

    @property
    def folder(self) -> Path:
        """Its folder on this machine."""
        return self.run.folder.parents[1] / self.path

    def digest(self) -> str:
        """What tells its files apart from others, by their paths and contents."""
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
