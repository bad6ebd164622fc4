"""Files that are replaced atomically, cheap copies of files, and locks."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_json(path: Path, value: object, *, durable: bool = False) -> None:
    """Replaces a file atomically: a reader sees the old text or the new, never a part. With
    `durable` it is on the disk when this returns, and survives a power failure."""
    write_bytes(path, json.dumps(value).encode(), durable=durable)


def write_bytes(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replaces a file as `write_json` does, with any bytes."""
    # Processes of other hosts that share the folder may have the same ID.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.uname().nodename}")
    try:
        with temporary.open("wb") as draft:
            draft.write(data)
            if durable:
                draft.flush()
                os.fsync(draft.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # incomplete
        raise


def write_secret(path: Path, data: bytes) -> bool:
    """Replaces a file that only its folder's owner may read; returns True if it changed."""
    if path.exists() and path.read_bytes() == data:
        return False
    owner, draft = path.parent.stat(), path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "wb") as out:
        out.write(data)
    os.chown(draft, owner.st_uid, owner.st_gid)
    draft.replace(path)
    return True


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a file; an empty one if the file does not exist."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value


@contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """Holds a lock file, which is created if missing: one holder at a time, whether thread or
    process; the kernel releases it with the process."""
    descriptor = open_lock(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(lock: Path) -> int | None:
    """Returns the descriptor that holds a lock file until it is closed; None if it is held."""
    descriptor = open_lock(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def open_lock(path: Path) -> int:
    """Opens a lock file, which is created if missing. In a folder that everybody may write to,
    everybody may lock it."""
    # Also for writing: NFS refuses an exclusive lock on a read-only descriptor.
    if not is_world_writable(path.parent):
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    while True:
        # Without O_CREAT, with which the kernel refuses to open another user's file there. Source:
        # Linux, Documentation/admin-guide/sysctl/fs (protected_regular).
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        import tempfile  # slower to import than everything else here

        # Created with its final mode: others may open it at once.
        descriptor, draft = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            os.fchmod(descriptor, 0o666)
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            os.close(descriptor)
            os.unlink(draft)  # noqa: PTH108 - of what has no Path


def is_world_writable(folder: Path) -> bool:
    """Returns True if everybody may create files there."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)


NO_CONNECTION, NO_ANSWER = "no-connection", "service-away"
"""IDs of faults that may be temporary: a host is unreachable, or a service does not answer."""


class AgentError(Exception):
    """Error that becomes a message of the command that asked; see `fairway_core.findings`."""

    def __init__(self, id: str, message: str, hint: str = "", exit_code: int = 5) -> None:  # noqa: A002
        self.record = {"id": id, "message": message, "hint": hint, "exit_code": exit_code}
        super().__init__(message)

    @property
    def said(self) -> str:
        """Message and hint in one line."""
        hint = self.record["hint"]
        return f"{self}; {hint}" if hint else str(self)


_FICLONE = 0x40049409  # Linux, include/uapi/linux/fs.h


def copy_file(source: str | Path, target: str | Path, *, follow_symlinks: bool = True) -> str:
    """Copies like `shutil.copy2`, for `shutil.copytree` too; the target is not a folder."""
    status = os.stat(source, follow_symlinks=follow_symlinks)  # noqa: PTH116
    if sys.platform == "linux" and stat.S_ISREG(status.st_mode):
        with suppress(OSError):  # the target may be left empty
            with open(source, "rb") as old, open(target, "wb") as new:  # noqa: PTH123
                fcntl.ioctl(new, _FICLONE, old.fileno())
            shutil.copystat(source, target)
            return str(target)
    return str(shutil.copy2(source, target, follow_symlinks=follow_symlinks))
