"""Archives that are the same bytes whenever their contents are: named by digest, sent once."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import fairway_agent

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL = 3  # of compression: text shrinks nearly as much as with 9, in a fifth of the time


def pack(files: Iterable[tuple[str, bytes, bool]]) -> bytes:
    """A tar.gz of files, each a path, its bytes, and whether it is executable.

    Times and owners are left out, so that the same files are the same archive anywhere.
    """
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=_LEVEL) as out,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content, executable in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def pack_folder(folder: Path) -> bytes:
    """All files below a folder; links to files are packed as these."""
    return pack(
        (path.relative_to(folder).as_posix(), path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if path.is_file()
    )


@cache
def agent() -> tuple[str, bytes]:
    """All that runs where jobs run, as an archive, and its digest: a folder that Python can run,
    with the programs that Batch starts at its top."""
    package = Path(fairway_agent.__file__).parent
    top = package / "batch" / "bin"
    files = [("__main__.py", (package / "main.py").read_bytes(), False)]
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            base = top if path.parent == top else package.parent
            executable = bool(path.stat().st_mode & 0o100)
            files.append((path.relative_to(base).as_posix(), path.read_bytes(), executable))
    digest = hashlib.sha256()
    for name, content, executable in sorted(files):
        digest.update(f"{executable:d} {len(content)} {name}\0".encode() + content)
    return digest.hexdigest()[:16], pack(files)
