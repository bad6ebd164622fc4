"""The code of a job: the files of its folder, named by what is in them.

A run works on a snapshot, so that it computes what was submitted, whatever is edited
meanwhile, and the same on every engine. Equal code is kept once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.jobs.project_sandbox import NEVER
from fairway_runner.jobs.walk import left_out, walk
from fairway_runner.submit.git import Ignored, ignored_yet_sent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.jobs.walk import Found

MOST_FILES = 20_000
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CodeFile:
    """One file: its path below the code's folder with `/`, size in bytes, whether executable, and
    when it was last changed, in nanoseconds. A path that ends with `/` is an empty folder's."""

    path: str
    size: int
    executable: bool
    changed: int = 0

    @property
    def is_folder(self) -> bool:
        """Whether it is an empty folder."""
        return self.path.endswith("/")


@dataclass(frozen=True)
class Code:
    """The files of a folder, and the digest of their paths and contents."""

    folder: Path
    files: Sequence[CodeFile]
    digest: str
    warnings: Sequence[Finding] = ()


@dataclass(frozen=True)
class Listing:
    """The files of a folder in the order of their paths, and what a person should hear of others
    there."""

    files: Sequence[CodeFile]
    warnings: Sequence[Finding]


def collect(folder: Path, exclude: Sequence[str] = (), *, gitignore: bool | None = False) -> Code:
    """The code in a folder; UserError where it is too large to be only code.

    `exclude` are shell patterns, matched against each path below the folder and each name.
    `gitignore` is whether what Git ignores is left out; with None a warning names it instead.
    """
    found = listed(folder, exclude, gitignore=gitignore)
    return Code(folder, found.files, _digest(folder, found.files), found.warnings)


def listed(folder: Path, exclude: Sequence[str] = (), *, gitignore: bool | None = False) -> Listing:
    """The files of the same code; none of them is read."""
    patterns = (*NEVER, *exclude)
    ignored = Ignored(folder) if gitignore else None

    def leaves_out(path: str, entry: os.DirEntry[str]) -> bool:
        if any(fnmatch(entry.name, each) or fnmatch(path, each) for each in patterns):
            return True
        return ignored is not None and ignored(path, entry)

    files: list[CodeFile] = []
    others: list[Found] = []
    total = 0
    try:
        for each in walk(folder, leaves_out):
            if (status := each.status) is None or not (each.is_file or each.is_folder):
                others.append(each)
                continue
            size = 0 if each.is_folder else status.st_size
            is_executable = each.is_file and bool(status.st_mode & 0o100)
            files.append(CodeFile(each.path, size, is_executable, status.st_mtime_ns))
            total += size
            if len(files) > MOST_FILES or total > MOST_BYTES:
                _refuse(folder, files)
    except OSError as error:
        raise _unreadable(folder, Path(error.filename), error) from None
    files.sort(key=lambda file: file.path)
    if ignored is not None and ignored.paths and all(each.is_folder for each in files):
        message, hint = f"Git ignores all of {folder}", "leave out `code.gitignore`"
        raise UserError([Finding("bad-code", message, hint, "code.gitignore")])
    warnings = left_out(others, "the code")
    if gitignore is None:
        warnings += ignored_yet_sent(folder, [each.path for each in files])
    return Listing(files, warnings)


def snapshot(code: Code, store: Path) -> Path:
    """A copy of the code under `store`, made once for each digest; returns its folder.

    UserError where it cannot be made.
    """
    try:
        return _take(code, store)
    except OSError as error:
        message = f"the code cannot be copied to {store}: {error.strerror}"
        raise UserError.of(
            "unwritable-folder", message, f"is the disk full? df -h {store}"
        ) from None


def _take(code: Code, store: Path) -> Path:
    target = stored(code.digest, store)
    if target.is_dir():
        return target
    from fairway_agent import clone

    store.mkdir(parents=True, exist_ok=True)
    # A server submits the same code in several threads at once.
    draft = store / f".{code.digest[:16]}.{os.getpid()}-{threading.get_ident()}"
    draft.mkdir()
    try:
        for file in code.files:
            copy = draft / file.path
            if file.is_folder:
                copy.mkdir(parents=True, exist_ok=True)
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            clone.copy(code.folder / file.path, copy)
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():  # else another submission of the same code was faster
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def stored(digest: str, store: Path) -> Path:
    """The folder of the snapshot with that digest."""
    return store / digest[:16]


@contextmanager
def in_use(store: Path, *, alone: bool = False) -> Iterator[None]:
    """No snapshot is removed meanwhile; with `alone`, none is being taken either."""
    try:
        store.mkdir(parents=True, exist_ok=True)
        lock = os.open(store / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        message = f"nothing can be written to {store}: {error.strerror}"
        hint = "use a folder that you may write to"
        raise UserError.of("unwritable-folder", message, hint) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def _unreadable(folder: Path, path: Path, error: OSError) -> UserError:
    hint = f"see who owns it: ls -ld {folder}"
    if path != folder:
        hint = f'leave it out: code: {{exclude: ["{path.relative_to(folder)}"]}}'
    return UserError.of("bad-code", f"{path}: {error.strerror}", hint)


def _digest(folder: Path, files: Sequence[CodeFile]) -> str:
    digest = hashlib.sha256()
    for file in files:
        try:
            content = b"" if file.is_folder else (folder / file.path).read_bytes()
        except OSError as error:
            raise _unreadable(folder, folder / file.path, error) from None
        kind = "x" if file.executable else "-"
        digest.update(f"{kind} {len(content)} {file.path}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _refuse(folder: Path, files: Sequence[CodeFile]) -> None:
    sizes: dict[str, int] = {}
    for file in files:
        top = file.path.split("/", 1)[0]
        sizes[top] = sizes.get(top, 0) + (1 if len(files) > MOST_FILES else file.size)
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    message = (
        f"{folder}: this is too large for code ({MOST_FILES:,} files or {MOST_BYTES >> 20} "
        f"MiB at most); the largest: {', '.join(largest)}"
    )
    hint = "move the job file to its code, or name the code's folder:\n"
    hint += f'  code: {{path: src, exclude: ["{largest[0]}"]}}\nand read data through `inputs:`'
    raise UserError.of("bad-code", message, hint)
