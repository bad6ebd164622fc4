"""Brings a task's resource files to its folder, and takes its output files away."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent.blobs import TransferError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_simulator.batch.agent.blobs import Blobs


def fetch(blobs: Blobs, files: Iterable[dict[str, Any]] | None, folder: Path) -> None:
    """Brings resource files, in their wire form, below `folder`."""
    for file in files or ():
        identity = _identity(file)
        mode = file.get("fileMode")
        if file.get("httpUrl"):
            target = _inside(folder, file.get("filePath") or PurePosixPath(file["httpUrl"]).name)
            blobs.download_url(file["httpUrl"], target, identity=identity)
            _set_mode(target, mode)
            continue
        url = file["storageContainerUrl"]
        prefix = file.get("blobPrefix") or ""
        for name, write in blobs.download_container(url, prefix, identity=identity):
            target = _inside(folder, str(PurePosixPath(file.get("filePath") or "") / name))
            write(target)
            _set_mode(target, mode)


def _identity(spec: dict[str, Any]) -> str:
    return str((spec.get("identityReference") or {}).get("resourceId") or "")


def _set_mode(path: Path, mode: str | None) -> None:
    path.chmod(int(mode, 8) if mode else 0o770)


def _inside(folder: Path, name: str) -> Path:
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise TransferError("ResourceFileCreateFailed", "the path leaves the folder", name)
    return target


def keep(blobs: Blobs, outputs: Iterable[dict[str, Any]], folder: Path, *, success: bool) -> None:
    """Uploads the output files whose condition holds. Patterns start at the folder `wd`."""
    wanted = {"taskcompletion", "tasksuccess" if success else "taskfailure"}
    for output in outputs:
        condition = output["uploadOptions"]["uploadCondition"]
        destination = (output.get("destination") or {}).get("container")
        if condition.lower() not in wanted or not destination:
            continue
        identity = _identity(destination)
        for path, name in matches(folder, output["filePattern"], destination.get("path") or ""):
            blobs.upload(path, destination["containerUrl"], name, identity=identity)


def matches(folder: Path, pattern: str, path: str) -> Iterator[tuple[Path, str]]:
    """The files that a pattern names, each with the name of its blob.

    With a wildcard `path` is a prefix, and a blob is named as the file is below the last
    folder before the wildcard; without one it is the whole name, or the file's where empty.
    What begins with a dot is left out unless the pattern has that dot: see the description of
    OutputFile.file_pattern in azure-batch, which says so of files; of folders nothing is said.
    """
    start = PurePosixPath(pattern)
    parts = list(start.parts)
    plain = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), None)
    if plain is None:
        file = folder / pattern
        if file.is_file():
            yield file, path or file.name
        return
    base = (folder / Path(*parts[:plain])).resolve()
    expression = re.compile(_regex("/".join(parts[plain:])))
    for file in sorted(base.rglob("*")):
        relative = file.relative_to(base).as_posix()
        if file.is_file() and expression.fullmatch(relative):
            yield file, f"{path.rstrip('/')}/{relative}" if path else relative


def _regex(pattern: str) -> str:
    """A pattern of `*`, `?`, `**` and `[…]` as a regular expression."""
    visible = r"(?:(?!\.)[^/]+/)*"
    special = {"**/": visible, "**": rf"{visible}(?!\.)[^/]*", "*": "[^/]*", "?": "[^/]"}
    found = ""
    begins = True  # a part of the path
    for piece in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", pattern):
        if begins and piece in ("*", "?"):
            found += r"(?!\.)"
        found += special.get(piece) or (piece if piece.startswith("[") else re.escape(piece))
        begins = piece.endswith("/") or (begins and not piece)
    return found
