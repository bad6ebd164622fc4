"""Archives that are the same bytes whenever their contents are, and the agent as it travels.

`fairway_agent` is one source of two products. `agent` is all that runs where jobs run: hosts and
nodes fetch it when a run needs it. `boot` is what a VM of a Slurm cluster boots with, or one that
stops itself: a few modules named one by one, because Terraform replaces a VM whenever they change.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import tarfile
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import fairway_agent

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL = 3  # of compression: text shrinks nearly as much as with 9, in a fifth of the time
_AUTOSCALE = "slurm/autoscale"
_DIGITS = 16  # of a digest

_COMMON = (
    *("azure/http", "azure/imds", "azure/keyvault", "faults", "slurm/commands"),
    *(f"{_AUTOSCALE}/{name}" for name in ("munge", "munge_key", "settings")),
    f"{_AUTOSCALE}/slurmctld",
)
SCHEDULER = (
    *(*_COMMON, "files"),
    *(f"{_AUTOSCALE}/{name}" for name in ("capacity", "claim_service", "holds", "ledger")),
    *(f"{_AUTOSCALE}/{name}" for name in ("power", "reconcile", "scale_set")),
)
"""The modules that a scheduler boots with."""

LOGIN = _COMMON
"""The modules that a login node boots with."""

NODE = (
    *_COMMON,
    *(
        f"{_AUTOSCALE}/{name}"
        for name in ("eviction", "hardware", "node", "people_secrets", "tokens")
    ),
)
"""The modules that a node boots with."""

IDLE = (
    *("azure/http", "azure/identity", "azure/imds", "azure/workload"),
    *("faults", "files", "record"),
    *("allocators/hosts", "allocators/queue", "figures/gpus", "idle_stop"),
)
"""The modules that a machine boots with that stops itself."""


def pack(files: Iterable[tuple[str, bytes | Path, bool]]) -> bytes:
    """A tar.gz of files, each a path, its bytes or where they lie, and whether it is executable;
    where the path ends with `/`, of an empty folder.

    What lies in a file is read as it is packed: it may be very large.
    """
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", _LEVEL, buffer, mtime=0) as out:
        _write_tar(cast("IO[bytes]", out), files, tarfile.PAX_FORMAT)
    return buffer.getvalue()


def pack_folder(folder: Path) -> bytes:
    """All files and empty folders below a folder; links to files are packed as these."""
    files: list[tuple[str, bytes | Path, bool]] = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file():
            files.append((name, path, _is_executable(path)))
        elif path.is_dir() and not any(path.iterdir()):
            files.append((f"{name}/", b"", True))
    return pack(files)


@cache
def agent() -> tuple[str, bytes]:
    """All that runs where jobs run, as an archive, and its digest: a folder that Python can run,
    with the programs that Batch starts at its top."""
    package = _package()
    top, left_out = package / "batch" / "bin", package / _AUTOSCALE
    files = [("__main__.py", (package / "main.py").read_bytes(), False)]
    for path in package.rglob("*"):
        is_left_out = "__pycache__" in path.parts or path.is_relative_to(left_out)
        if path.is_file() and not is_left_out:
            base = top if path.parent == top else package.parent
            name = path.relative_to(base).as_posix()
            files.append((name, path.read_bytes(), _is_executable(path)))
    return _digest(files), pack(files)


def boot_files(modules: Iterable[str]) -> dict[str, str]:
    """The text of modules of the agent by their paths on a VM; its packages are empty there."""
    package = _package()
    files, folders = {}, {"fairway_agent"}
    for module in modules:
        text = (package / f"{module}.py").read_text(encoding="utf-8")
        files[f"fairway_agent/{module}.py"] = text
        folders |= {f"fairway_agent/{each}" for each in map(str, Path(module).parents)}
    return {**{f"{each.removesuffix('/.')}/__init__.py": "" for each in folders}, **files}


def boot(modules: Iterable[str]) -> tuple[str, bytes]:
    """These modules as an archive that bzip2 has made small, and its digest.

    Other compressors have several implementations, whose bytes differ; and where these differ
    Terraform would replace a VM.
    """
    files = [(name, text.encode(), False) for name, text in boot_files(modules).items()]
    buffer = io.BytesIO()
    _write_tar(buffer, files, tarfile.USTAR_FORMAT)
    return _digest(files), bz2.compress(buffer.getvalue(), compresslevel=9)


def _write_tar(
    out: IO[bytes],
    files: Iterable[tuple[str, bytes | Path, bool]],
    format: int,  # noqa: A002
) -> None:
    """Without times and owners, so that the same files are the same archive anywhere."""
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, content, executable in sorted(files, key=itemgetter(0)):
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if executable else 0o644
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
                entry.size = file.seek(0, io.SEEK_END)
                file.seek(0)
                archive.addfile(entry, file)


def _digest(files: Iterable[tuple[str, bytes, bool]]) -> str:
    digest = hashlib.sha256()
    for name, content, executable in sorted(files):
        digest.update(f"{executable:d} {len(content)} {name}\0".encode() + content)
    return digest.hexdigest()[:_DIGITS]


def _package() -> Path:
    return Path(fairway_agent.__file__).parent


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)
