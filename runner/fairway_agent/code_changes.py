"""Brings changes of a job's code into the folder where it runs.

    python3 -c SOURCE <CHANGES

SOURCE is the text of this file, which therefore imports nothing of Fairway. It runs in the code's
folder. CHANGES are a line of JSON and what the files hold, one after another: `removed` are paths,
`files` have `path`, `size` in bytes and `executable`. It prints a line of JSON behind MARK: how
many were written and removed, and which paths were refused, and why.

Nothing outside of the folder is touched, whatever the paths are: no symbolic link is followed, as a
program of the job may have put it there meanwhile. A file changes as a whole or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import BinaryIO

MARK = "fairway-code "
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_CHUNK = 1 << 20


class Refused(Exception):
    """Why a path is left as it is."""


def apply(root: int, source: BinaryIO) -> dict[str, Any]:
    """Does what the changes say below the folder of the descriptor `root`; what it prints."""
    facts = json.loads(source.readline())
    refused: list[tuple[str, str]] = []
    done = {"written": 0, "removed": 0}
    for path in facts["removed"]:
        try:
            done["removed"] += _remove(root, path)
        except (Refused, OSError) as error:
            refused.append((path, _why(error)))
    for file in facts["files"]:
        left = _Content(source, int(file["size"]))
        try:
            _write(root, file["path"], left, 0o755 if file["executable"] else 0o644)
            done["written"] += 1
        except (Refused, OSError) as error:
            refused.append((file["path"], _why(error)))
        left.skip()
    return {**done, "refused": refused}


class _Content:
    """What is left of one file in the stream."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self.source, self.size = source, size

    def read(self) -> bytes:
        """The next part; nothing at its end."""
        part = self.source.read(min(self.size, _CHUNK))
        if self.size and not part:
            raise EOFError("the changes are cut off")
        self.size -= len(part)
        return part

    def skip(self) -> None:
        """Reads what nobody wants."""
        while self.size:
            self.read()


def _write(root: int, path: str, content: _Content, mode: int) -> None:
    names = _names(path)
    folder = _open(root, names[:-1], make=True)
    draft = f".fairway-{secrets.token_hex(8)}"
    try:
        file = os.open(draft, _NEW, 0o600, dir_fd=folder)
        try:
            with open(file, "wb") as out:  # noqa: PTH123 - a descriptor
                while part := content.read():
                    out.write(part)
                os.fchmod(file, mode)
            os.replace(draft, names[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _remove(root: int, path: str) -> int:
    """Removes a file, and the folders that are empty then; how many files that were."""
    names = _names(path)
    try:
        folder = _open(root, names[:-1], make=False)
    except FileNotFoundError:
        return 0
    try:
        os.unlink(names[-1], dir_fd=folder)
    except FileNotFoundError:
        return 0
    finally:
        os.close(folder)
    while names := names[:-1]:
        above = _open(root, names[:-1], make=False)
        try:
            os.rmdir(names[-1], dir_fd=above)
        except OSError:
            break  # there is more in it
        finally:
            os.close(above)
    return 1


def _names(path: object) -> list[str]:
    """The parts of a path that stays below its folder."""
    names = path.split("/") if isinstance(path, str) else [""]
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise Refused("it leaves the code's folder")
    return names


def _open(root: int, names: list[str], *, make: bool) -> int:
    """A descriptor of a folder below; OSError where it is none, or a symbolic link."""
    folder = os.dup(root)
    for name in names:
        above = folder
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=above)
            folder = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return folder


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOTDIR, errno.ELOOP):
        return "there is a file or a link where its folder would be"
    if isinstance(error, IsADirectoryError):
        return "there is a folder of that name"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def main() -> None:
    """The program; see the module's docstring for what it reads and prints."""
    root = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    sys.stdout.write(f"\n{MARK}{json.dumps(apply(root, sys.stdin.buffer))}\n")


if __name__ == "__main__":
    main()
