"""Files of a project: a walk over them, and those that jobs from elsewhere may read and run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.quantities import format_names

T = TypeVar("T")

# Files that no job needs: version control, environments, caches, earlier runs.
NEVER: tuple[str, ...] = (
    *(".git", ".fairway", ".venv", "venv", "__pycache__", "*.pyc", ".ipynb_checkpoints"),
    *("node_modules", "cdktf.out", ".terraform", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
)

_root: ContextVar[Path | None] = ContextVar("root", default=None)


@contextmanager
def set_within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Sets a context variable within the block."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def restricted_to(root: Path) -> AbstractContextManager[None]:
    """Restricts jobs that are checked in the block to the files of the project at `root`."""
    return set_within(_root, root.resolve())


def is_code_of(root: Path, path: Path) -> bool:
    """Returns True for the project's folder, and for paths in it that jobs may read: `.git` and
    `.fairway` hold secrets, and outputs of runs belong elsewhere."""
    root, path = root.resolve(), path.resolve()
    if not path.is_relative_to(root):
        return False
    return not any(fnmatch(part, each) for part in path.relative_to(root).parts for each in NEVER)


def require_code(folder: Path) -> None:
    """Raises UserError for a folder of code outside the project, if jobs are restricted."""
    root = _root.get()
    if root is not None and not is_code_of(root, folder):
        raise _refused("submit code from elsewhere", "keep `code.path` inside of the project")


def require_inside(link: Path, path: str) -> None:
    """Raises UserError for a link, called `path`, out of the project, if jobs are restricted."""
    root = _root.get()
    if root is not None and not is_code_of(root, link):
        hint = "let it lead into the project, or leave it out, by `code.exclude` or the pattern"
        raise _refused(f"follow the link {path}, which leads out of the project's code", hint)


def require_no_function() -> None:
    """Raises UserError if no code of a job may run on this machine."""
    if _root.get() is not None:
        hint = "write the points out, such as with `grid:`"
        raise _refused("run the `python:` of a sweep on the machine of the server", hint)


def require_relative(pattern: str) -> None:
    """Raises UserError for a path of the machine, if only the project's files are allowed."""
    if _root.get() is not None and (pattern.startswith("/") or ".." in pattern.split("/")):
        hint = "begin in the folder of the job, and write no `..`"
        raise _refused("list files of the server outside of the project", hint)


def _refused(what: str, hint: str) -> UserError:
    message = f"your role does not let you {what}"
    return UserError.of("missing-role", message, f"{hint}, or ask for the role Operator")


@dataclass(frozen=True)
class Origin:
    """Uploaded code: its folder while its job is checked, and git's facts from where it came."""

    root: Path
    git: Mapping[str, Any]


_origin: ContextVar[Origin | None] = ContextVar("origin", default=None)


def uploaded_code(origin: Origin) -> AbstractContextManager[None]:
    """Sets the uploaded code of the jobs that are checked in the block."""
    return set_within(_origin, origin)


def known_git() -> Mapping[str, Any] | None:
    """Returns git's facts about uploaded code, from where it was sent: git is not run here, since a
    folder may be a repository whose settings are programs."""
    origin = _origin.get()
    return None if origin is None else origin.git


def is_uploaded() -> bool:
    """Returns True while a job is checked that was uploaded to this machine."""
    return _origin.get() is not None


def uploaded_before(facts: Mapping[str, Any], snapshot: Path) -> AbstractContextManager[None]:
    """Sets the origin of uploaded code for the snapshot of an earlier run by its provenance."""
    if facts.get("sent") is not True:
        return nullcontext()
    return uploaded_code(Origin(snapshot.resolve(), facts.get("git") or {}))


def is_own(path: Path) -> bool:
    """Returns False for uploaded templates of people who may not run code on this machine."""
    origin = _origin.get()
    is_sent = origin is not None and path.resolve().is_relative_to(origin.root)
    return not (is_sent and _root.get() is not None)


def require_lasting(directory: str) -> None:
    """Raises UserError for checkpoints next to the job's file, if that was uploaded."""
    if is_uploaded():
        copy = "the copy of the code that was sent"
        message = f"`checkpoint.directory`: `{directory}` would be in {copy}"
        hint = "write an absolute path on the server's machine, or MOUNT:PATH"
        raise UserError.of("bad-value", message, hint)


LeavesOut = Callable[[str, os.DirEntry[str]], bool]
"""Returns True if a path, with its directory entry, is excluded with everything below it."""

_KINDS = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}


@dataclass(frozen=True)
class Found:
    """One path below the folder, with `/`, and the status of its target; None for a dangling link.
    The path of an empty folder ends with `/`."""

    path: str
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        """True if it is readable like a file."""
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        """True if it is a folder in which nothing was found."""
        return self.path.endswith("/")

    @property
    def kind(self) -> str:
        """Kind of entry, if it can neither be copied nor sent."""
        if self.status is None:
            return "a link to nothing"
        return _KINDS.get(stat.S_IFMT(self.status.st_mode), "a device")


def walk(folder: Path, leaves_out: LeavesOut = lambda *_: False) -> Iterator[Found]:
    """Yields everything below a folder that `leaves_out` does not leave out. Raises OSError with
    its path for an unreadable entry, such as a link to a folder around it, and UserError for a link
    to a path that a remote user's job may not read."""
    # A link to `/` leads back too, but before that to links of processes, at random.
    yield from _below(folder, "", leaves_out, (Path("/").stat(), folder.stat()))


def left_out(found: Iterable[Found], what: str) -> list[Finding]:
    """Returns a warning that names entries that are no files; `what` cannot hold them."""
    names = sorted(f"{each.path} ({each.kind})" for each in found)
    if not names:
        return []
    message = f"{what} leaves out {format_names(names)}"
    hint = "only files and folders can be copied"
    return [Finding("left-out", message, hint, severity=Severity.WARNING)]


def _below(
    folder: Path,
    prefix: str,
    leaves_out: LeavesOut,
    around: tuple[os.stat_result, ...],
    link: str = "",
) -> Iterator[Found]:
    """Yields everything below a folder, like `walk`; `around` are the folders that contain it, and
    itself; `link` has led here."""
    is_empty = True
    for entry, path, status in _kept(folder, prefix, leaves_out):
        is_empty = False
        if status is None or not stat.S_ISDIR(status.st_mode):
            yield Found(path, status)
            continue
        came = entry.path if entry.is_symlink() else link
        if any(os.path.samestat(status, each) for each in around):
            raise OSError(errno.ELOOP, "it leads back to a folder that it lies in", came)
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
