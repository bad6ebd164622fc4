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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.jobs.confined import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_FILES = 20_000
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CodeFile:
    """One file: its path below the code's folder with `/`, size in bytes, whether executable, and
    when it was last changed, in nanoseconds."""

    path: str
    size: int
    executable: bool
    changed: int = 0


@dataclass(frozen=True)
class Code:
    """The files of a folder in the order of their paths, and the digest of paths and contents."""

    folder: Path
    files: tuple[CodeFile, ...]
    digest: str


def collect(folder: Path, exclude: Sequence[str] = ()) -> Code:
    """The code in a folder; UserError where it is too large to be only code.

    `exclude` are shell patterns, matched against each path below the folder and each name.
    """
    files = listed(folder, exclude)
    return Code(folder, tuple(files), _digest(folder, files))


def listed(folder: Path, exclude: Sequence[str] = ()) -> list[CodeFile]:
    """The files of the same code, in the order of their paths; none of them is read."""
    files: list[CodeFile] = []
    total = 0
    for file in _walk(folder, "", (*NEVER, *exclude)):
        files.append(file)
        total += file.size
        if len(files) > MOST_FILES or total > MOST_BYTES:
            _refuse(folder, files)
    files.sort(key=lambda file: file.path)
    return files


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


def _walk(folder: Path, prefix: str, exclude: Sequence[str]) -> Iterator[CodeFile]:
    try:
        entries = list(os.scandir(folder))
    except PermissionError as error:
        hint = _leave_out(prefix.rstrip("/")) if prefix else f"see who owns it: ls -ld {folder}"
        raise UserError.of("bad-code", f"{folder}: {error.strerror}", hint) from None
    except FileNotFoundError:
        if not prefix:
            raise
        return  # it is gone since its name was read
    for entry in entries:
        path = prefix + entry.name
        if any(fnmatch(entry.name, pattern) or fnmatch(path, pattern) for pattern in exclude):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), path + "/", exclude)
        elif _is_file(entry, path):
            with suppress(FileNotFoundError):  # as above
                status = entry.stat()
                is_executable = bool(status.st_mode & 0o100)
                yield CodeFile(path, status.st_size, is_executable, status.st_mtime_ns)


def _is_file(entry: os.DirEntry[str], path: str) -> bool:
    try:
        return entry.is_file()
    except OSError as error:  # a link without end, or to where nobody may look
        message = f"{entry.path}: {error.strerror}"
        raise UserError.of("bad-code", message, _leave_out(path)) from None


def _leave_out(path: str) -> str:
    return f'leave it out: code: {{exclude: ["{path}"]}}'


def _digest(folder: Path, files: Sequence[CodeFile]) -> str:
    digest = hashlib.sha256()
    for file in files:
        try:
            content = (folder / file.path).read_bytes()
        except OSError as error:
            message = f"{folder / file.path}: {error.strerror}"
            raise UserError.of("bad-code", message, _leave_out(file.path)) from None
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
