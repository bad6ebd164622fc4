"""Fairway's own files for the hosts of a cluster, as one folder named by what is in it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parents[2]
_ENTRY = "__main__.py"

# Each with the folders below it. Of `local` all but what needs Fairway itself.
_FOLDERS = ("engines/local", "engines/remote/node", "engines/ssh/node", "engines/slurm/node")
_SINGLE = ("__init__.py", "engines/__init__.py")
_NEVER = ("engines/local/engine.py", "engines/local/machine.py")


@cache
def bundle() -> tuple[str, bytes]:
    """Its name, and its files as a compressed tar file, the same for the same files."""
    contents = dict(_contents())
    digest = hashlib.sha256()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        for name, (data, mode) in sorted(contents.items()):
            digest.update(f"{mode:o} {len(data)} {name}\0".encode() + data)
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            files.addfile(member, io.BytesIO(data))
    return digest.hexdigest()[:16], buffer.getvalue()


def _contents() -> Iterator[tuple[str, tuple[bytes, int]]]:
    yield _ENTRY, ((_PACKAGE / "engines/remote/node/entry.py").read_bytes(), 0o644)
    # A package in between, whose own __init__ is not for hosts.
    for name in (
        "engines/remote/__init__.py",
        "engines/ssh/__init__.py",
        "engines/slurm/__init__.py",
    ):
        yield f"fairway_runner/{name}", (b"", 0o644)
    for name in _names():
        path = _PACKAGE / name
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        yield f"fairway_runner/{name}", (path.read_bytes(), mode)


def _names() -> Iterator[str]:
    yield from _SINGLE
    for folder in _FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*")):
            name = path.relative_to(_PACKAGE).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and name not in _NEVER:
                yield name
