"""Archives that are the same bytes whenever their contents are: named by digest, sent once."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL = 3  # of compression: text shrinks nearly as much as with 9, in a fifth of the time

# What a node runs of this package: standard library only, Python 3.10 and later.
_ON_NODES = (
    "engines/local/masking.py",
    "engines/local/outputs.py",
    "engines/local/ports.py",
    "engines/local/processes.py",
    "engines/local/records.py",
)


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


@lru_cache(maxsize=1)
def node_programs() -> tuple[str, bytes]:
    """What Fairway runs on nodes, as an archive, and its digest."""
    package = Path(__file__).resolve().parents[2]
    own = Path(__file__).resolve().parent / "node"
    sources = [package / name for name in _ON_NODES] + sorted(own.glob("*.py"))
    files = {f"fairway_runner/{path.relative_to(package)}": path.read_bytes() for path in sources}
    for name in list(files):
        for parent in Path(name).parents:
            if parent.name:
                files.setdefault(f"{parent}/__init__.py", b"")
    # The package's own says more than a node needs, and imports what it has not.
    files["fairway_runner/__init__.py"] = b""
    entries = [(name, content, False) for name, content in files.items()]
    entries += [
        (path.name, path.read_bytes(), True)
        for path in sorted(own.iterdir())
        if path.name.startswith("fairway-")
    ]
    archive = pack(entries)
    return hashlib.sha256(archive).hexdigest()[:16], archive
