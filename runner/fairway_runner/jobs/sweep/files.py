"""The files that a pattern matches, in an order that depends on their names alone."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_core.yaml_text import unfit_character
from fairway_runner.jobs.confined import require_relative
from fairway_runner.jobs.sweep.axes import MOST_POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.jobs.params import ParamValue


def file_points(pattern: str, folder: Path) -> Iterator[dict[str, ParamValue]]:
    """A point a file: `file` is its path as the pattern begins it, `name`, and `stem`."""
    for path in matching_files(pattern, folder):
        name = path.rpartition("/")[2]
        yield {"file": path, "name": name, "stem": Path(name).stem}


def matching_files(pattern: str, folder: Path) -> list[str]:
    """The sorted paths, relative to `folder` or absolute as the pattern is.

    Patterns are the shell's: `*`, `?` and `[…]` leave out names that begin with a point.
    `**` is any number of folders, but neither those nor symbolic links to folders: what
    lies elsewhere is reached by saying so. Raises FieldError where nothing matches, where
    a folder cannot be read, and for more files than a sweep may have.
    """
    require_relative(pattern)
    absolute = pattern.startswith("/")
    top = "/" if absolute else f"{folder}/"
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    # Several `**` in a row are one.
    parts = [
        part
        for part, last in zip(parts, ["", *parts], strict=False)
        if part != "**" or last != part
    ]
    found: set[str] = set()
    try:
        for path in _matches(top, "", parts):
            found.add(path)
            if len(found) > MOST_POINTS:
                message = f"`{pattern}` matches more than {MOST_POINTS:,} files"
                raise FieldError(message, "use a narrower pattern")
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}"
        raise FieldError(message, "let it be read, or use a narrower pattern") from None
    if not found:
        within = "" if absolute else f" in {folder}"
        raise FieldError(f"`{pattern}` matches no file{within}", "for example data/*.csv")
    paths = sorted(f"/{path}" if absolute else path for path in found)
    for path in paths:
        if character := unfit_character(path):
            raise FieldError(f"the file {path!a} has {character} in its name", "rename the file")
    return paths


def _matches(top: str, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """The files below `top + folder`, as paths below `top`."""
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matches(top, folder, rest or ["*"])
        for entry in _entries(top, folder):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _matches(top, f"{folder}{entry.name}/", parts)
    elif re.search(r"[*?\[]", part) is None:
        yield from _step(top, folder + part, rest)
    else:
        hidden = part.startswith(".")
        for entry in _entries(top, folder):
            if fnmatchcase(entry.name, part) and (hidden or not entry.name.startswith(".")):
                yield from _step(top, folder + entry.name, rest)


def _step(top: str, path: str, rest: Sequence[str]) -> Iterator[str]:
    if rest and os.path.isdir(top + path):  # noqa: PTH112 - pathlib would normalise each path
        yield from _matches(top, f"{path}/", rest)
    elif not rest and os.path.isfile(top + path):  # noqa: PTH113
        yield path


def _entries(top: str, folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(top + folder) as entries:
        return list(entries)
