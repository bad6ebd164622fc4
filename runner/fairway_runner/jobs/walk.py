"""Walk over everything below a folder, for snapshots of code, uploads and patterns of files.

Links are followed, since on another machine they would lead to nothing. Dangling links, sockets,
pipes and empty folders are found too, so that nothing is left out silently.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity
from fairway_runner.jobs.project_sandbox import require_inside
from fairway_runner.quantities import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LeavesOut = Callable[[str, os.DirEntry[str]], bool]
"""Whether a path, with its entry in its folder, is passed over, and all that is below it."""

_KINDS = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}
_LOOP = "it leads back to a folder that it lies in"


@dataclass(frozen=True)
class Found:
    """One path below the folder, with `/`, and what is there, behind all links; None where a link
    leads to nothing. The path of a folder, which holds nothing, ends with `/`."""

    path: str
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        """True if it can be read like a file."""
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        """True if it is a folder in which nothing was found."""
        return self.path.endswith("/")

    @property
    def kind(self) -> str:
        """The kind of thing that can neither be copied nor sent."""
        if self.status is None:
            return "a link to nothing"
        return _KINDS.get(stat.S_IFMT(self.status.st_mode), "a device")


def walk(folder: Path, leaves_out: LeavesOut = lambda *_: False) -> Iterator[Found]:
    """Yields everything in a folder and below, except entries for which `leaves_out` is true, whose
    folders are not entered.

    Raises OSError with its path for an unreadable entry, such as a link that leads back to a folder
    that contains it; UserError for a link to a place that a remote user's job may not read.
    """
    yield from _below(folder, "", leaves_out, (folder.stat(),))


def left_out(found: Iterable[Found], what: str) -> list[Finding]:
    """A warning that names what is there and is no file; `what` cannot hold it."""
    names = sorted(f"{each.path} ({each.kind})" for each in found)
    if not names:
        return []
    message = f"{what} leaves out {few(names)}"
    hint = "only files and folders can be copied"
    return [Finding("left-out", message, hint, severity=Severity.WARNING)]


def _below(
    folder: Path,
    prefix: str,
    leaves_out: LeavesOut,
    around: tuple[os.stat_result, ...],
    link: str = "",
) -> Iterator[Found]:
    """`around` are the folders in which this one lies, and itself; `link` has led here."""
    is_empty = True
    for entry, path, status in _kept(folder, prefix, leaves_out):
        is_empty = False
        if status is None or not stat.S_ISDIR(status.st_mode):
            yield Found(path, status)
            continue
        came = entry.path if entry.is_symlink() else link
        if any(os.path.samestat(status, each) for each in around):
            raise OSError(errno.ELOOP, _LOOP, came)
        yield from _below(Path(entry.path), f"{path}/", leaves_out, (*around, status), came)
    if is_empty and prefix:
        yield Found(prefix, around[-1])


def _kept(
    folder: Path, prefix: str, leaves_out: LeavesOut
) -> Iterator[tuple[os.DirEntry[str], str, os.stat_result | None]]:
    """Yields the entries of one folder: each with its path below the first folder, and its status.
    Entries that have vanished since their names were read are skipped."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        if not prefix:
            raise
        return
    for entry in entries:
        path = prefix + entry.name
        if leaves_out(path, entry):
            continue
        try:
            status = entry.stat()
        except (FileNotFoundError, NotADirectoryError):
            if entry.is_symlink():
                yield entry, path, None
            continue
        if entry.is_symlink():
            require_inside(Path(entry.path), path)
        yield entry, path, status
