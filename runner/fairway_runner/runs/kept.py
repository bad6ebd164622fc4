"""Kept outputs of a task: its files, and links that stay among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairway_agent.quick import dataclass
from fairway_core.findings import printable
from fairway_runner.engines.outage import warn
from fairway_runner.quantities import format_names

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder

_CHUNK = 1 << 20


class Kept(NamedTuple):
    """One path below a task's outputs that is no folder. `link` is where it leads from its own
    folder, if it is a link to no file; `is_fit` is False if nothing of it may be read."""

    path: Path
    link: str = ""
    is_fit: bool = True


def walk_outputs(folder: Path, outputs: Path) -> Iterator[Kept]:
    """Yields the paths below a folder that is, or is among, a task's outputs, in order. Links are
    followed to these only: jobs write what they like, on other machines and for other people, and
    elsewhere are files that are not theirs to read."""
    if leads_out(folder, outputs):
        yield Kept(folder, is_fit=False)
        return
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in sorted([*names, *links])):
            is_link = path.is_symlink()
            if is_link and leads_out(path, outputs):
                yield Kept(path, is_fit=False)
            elif path.is_file():
                yield Kept(path)
            elif is_link:
                # Without the links on the way, which may not be the same where it is copied to.
                leads_to = os.path.relpath(os.path.realpath(path), os.path.realpath(parent))
                yield Kept(path, link=leads_to)
            else:
                yield Kept(path, is_fit=False)


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
class KeptOutput:
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
