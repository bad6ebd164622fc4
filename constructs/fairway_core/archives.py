"""Reproducible archives: of the agent, and of the code that VMs boot with.

`agent` is all that runs where jobs run: hosts and nodes fetch it when a run needs it. `boot` is a
part of `fairway_boot`: the code that a VM of a Slurm cluster boots with, or one that stops itself.
Terraform replaces such a VM when that code changes, so each kind gets only the modules that it
needs, without their comments and docstrings.
"""

from __future__ import annotations

import io
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import fairway_agent
import fairway_boot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LEVEL = 3  # of compression: text shrinks nearly as much as with 9, in a fifth of the time
_DIGITS = 16  # of a digest
_AGENT = Path(fairway_agent.__file__).parent
_BOOT = Path(fairway_boot.__file__).parent

LOGIN = ("files", "http", "identity", "imds", "slurm/commands", "slurm/munge", "slurm/settings")
"""The modules that a login node boots with."""

SCHEDULER = (
    *LOGIN,
    *(f"slurm/{name}" for name in ("capacity", "claim_service", "node_registry", "power")),
)
"""The modules that a scheduler boots with."""

NODE = (*LOGIN, "slurm/eviction", "slurm/node", "slurm/people")
"""The modules that a node boots with."""

IDLE = ("cluster", "files", "gpus", "http", "identity", "idle_stop", "imds")
"""The modules that a machine with an idle stop boots with."""


def pack(files: Iterable[tuple[str, bytes | Path, bool]]) -> bytes:
    """Returns a tar.gz of files, each given as a path, its bytes or its source, which may be very
    large, and whether it is executable; a path that ends with `/` is an empty folder."""
    import gzip
    import tarfile

    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", _LEVEL, buffer, mtime=0) as out:
        _write_tar(cast("IO[bytes]", out), files, tarfile.PAX_FORMAT)
    return buffer.getvalue()


def pack_folder(folder: Path) -> bytes:
    """Packs all files and empty folders below a folder; links to files are packed as the files."""
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
    """Returns the digest and the archive of all that runs where jobs run: a folder that Python can
    run, with the programs that Batch starts at its top."""
    return agent_digest(), pack(_agent_files())


@cache
def agent_digest() -> str:
    """Returns only the agent's digest: most hosts have the archive already, and packing is slow."""
    return _digest(_agent_files())


@cache
def agent_content() -> tuple[str, int]:
    """Returns the digest of the agent's paths and contents alone, as a host finds it from a copy,
    and their bytes: not every file system keeps modes."""
    import hashlib

    digest = hashlib.sha256()
    for name, content, _ in sorted(_agent_files()):
        digest.update(f"{len(content)} {name}\0".encode() + content)
    return digest.hexdigest(), sum(len(content) for _, content, _ in _agent_files())


@cache
def _agent_files() -> Sequence[tuple[str, bytes, bool]]:
    top = _AGENT / "batch" / "bin"
    files = [("__main__.py", (_AGENT / "main.py").read_bytes(), False)]
    for path in (*_AGENT.rglob("*"), *_BOOT.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            base = top if path.parent == top else _AGENT.parent
            name = path.relative_to(base).as_posix()
            files.append((name, path.read_bytes(), _is_executable(path)))
    return files


def boot_files(modules: Iterable[str]) -> dict[str, str]:
    """Returns the code of modules of `fairway_boot` by paths on a VM, with empty packages."""
    files, folders = {}, {"fairway_boot"}
    for module in modules:
        text = (_BOOT / f"{module}.py").read_text(encoding="utf-8")
        files[f"fairway_boot/{module}.py"] = code(text)
        folders |= {f"fairway_boot/{each}" for each in map(str, Path(module).parents)}
    return {**{f"{each.removesuffix('/.')}/__init__.py": "" for each in folders}, **files}


def module_files(modules: Iterable[str]) -> dict[str, str]:
    """Returns the code of modules of the agent's packages by their paths below one folder."""
    paths = [f"{module}.py" for module in modules]
    return {path: code((_AGENT.parent / path).read_text(encoding="utf-8")) for path in paths}


@cache
def code(text: str) -> str:
    """Returns a module's text without comments, docstrings and empty lines.

    The rest is unchanged. `ast.unparse` differs between versions of Python, so that a VM would be
    replaced because a user has another one. As lines are missing, a traceback on a VM has the line
    numbers of the file there, not of the source.

    >>> code("x = 1  # why\\n\\n# because\\ny = '#'\\n")
    "x = 1\\ny = '#'\\n"
    """
    import ast
    import tokenize

    lines = text.splitlines()
    quoted: set[int] = set()  # lines that continue a string, in which empty ones count
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            lines[first - 1] = lines[first - 1][:column].rstrip()
        elif tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE"):
            quoted |= set(range(first, last))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            texts = [
                each
                for each in body
                if isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ]
            for each in texts:
                last = each.end_lineno or each.lineno
                lines[each.lineno - 1 : last] = [""] * (last - each.lineno + 1)
                quoted -= set(range(each.lineno, last))
            if len(texts) == len(body) > 0:
                lines[body[0].lineno - 1] = " " * body[0].col_offset + "pass"
    kept = (line for number, line in enumerate(lines) if line.strip() or number in quoted)
    return "".join(f"{line}\n" for line in kept)


def boot(modules: Iterable[str]) -> tuple[str, bytes]:
    """Returns the digest of these modules, and their archive by bzip2: the output of other
    compressors differs between implementations, and Terraform would replace a VM for it."""
    import bz2
    import tarfile

    files = [(name, text.encode(), False) for name, text in boot_files(modules).items()]
    buffer = io.BytesIO()
    _write_tar(buffer, files, tarfile.USTAR_FORMAT)
    return _digest(files), bz2.compress(buffer.getvalue(), compresslevel=9)


def _write_tar(
    out: IO[bytes],
    files: Iterable[tuple[str, bytes | Path, bool]],
    format: int,  # noqa: A002
) -> None:
    """Writes files without times and owners, so that equal files give equal archives anywhere."""
    import tarfile

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
    import hashlib  # loads OpenSSL, which a look at an ended run does not need

    digest = hashlib.sha256()
    for name, content, executable in sorted(files):
        digest.update(f"{executable:d} {len(content)} {name}\0".encode() + content)
    return digest.hexdigest()[:_DIGITS]


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)
