"""The files that a pattern matches, of a folder or of a list of names, in an order that depends on
their names alone."""

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
    from collections.abc import Iterable, Iterator, Sequence

    from fairway_runner.jobs.params import ParamValue


def file_points(paths: Iterable[str]) -> Iterator[dict[str, ParamValue]]:
    """A point a file: `file` is its path as it is given, `name` its last part, and `stem` that
    without its suffix."""
    for path in paths:
        name = path.rpartition("/")[2]
        yield {"file": path, "name": name, "stem": Path(name).stem}


def matching_names(pattern: str, names: Iterable[str], where: str) -> list[str]:
    """Those of the relative paths `names` that the pattern matches, sorted, as `matching_files`
    matches the files of a folder; FieldError where there is none, too many, or a name that no
    command can have. `where` says in the message whose names they are."""
    parts = _parts(pattern)
    found = sorted(name for name in names if _fits(parts, name.split("/")))
    if len(found) > MOST_POINTS:
        message = f"`{pattern}` matches {len(found):,} files of {where}"
        raise FieldError(message, f"use a narrower pattern, for at most {MOST_POINTS:,}")
    if not found:
        raise FieldError(f"`{pattern}` matches no file of {where}", "for example **/*.csv")
    return _fit_for_use(found)


def _fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the parts of a pattern match those of a path."""
    if not parts or not names:
        return not parts and not names
    part, rest = parts[0], parts[1:]
    if part == "**":
        if _fits(rest or ["*"], names):
            return True
        return not names[0].startswith(".") and _fits(parts, names[1:])
    return _fits_one(part, names[0]) and _fits(rest, names[1:])


def _fits_one(part: str, name: str) -> bool:
    if not _is_pattern(part):
        return part == name
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


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
    parts = _parts(pattern)
    found: set[str] = set()
    try:
        for path in _matches(top, "", parts):
            found.add(path)
            if len(found) > MOST_POINTS:
                message = f"`{pattern}` matches more than {MOST_POINTS:,} files"
                raise FieldError(message, "use a narrower pattern")
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}"
        raise FieldError(message, "make it readable, or use a narrower pattern") from None
    if not found:
        within = "" if absolute else f" in {folder}"
        raise FieldError(f"`{pattern}` matches no file{within}", "for example data/*.csv")
    return _fit_for_use(sorted(f"/{path}" if absolute else path for path in found))


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    # Several `**` in a row are one.
    return [
        part
        for part, last in zip(parts, ["", *parts], strict=False)
        if part != "**" or last != part
    ]


def _fit_for_use(paths: list[str]) -> list[str]:
    for path in paths:
        if character := unfit_character(path):
            raise FieldError(f"the file {path!a} has {character} in its name", "rename the file")
    return paths


def _is_pattern(part: str) -> bool:
    return re.search(r"[*?\[]", part) is not None


def _matches(top: str, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """The files below `top + folder`, as paths below `top`."""
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matches(top, folder, rest or ["*"])
        for entry in _entries(top, folder):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _matches(top, f"{folder}{entry.name}/", parts)
    elif not _is_pattern(part):
        yield from _step(top, folder + part, rest)
    else:
        for entry in _entries(top, folder):
            if _fits_one(part, entry.name):
                yield from _step(top, folder + entry.name, rest)


def _step(top: str, path: str, rest: Sequence[str]) -> Iterator[str]:
    if rest and os.path.isdir(top + path):  # noqa: PTH112 - pathlib would normalise each path
        yield from _matches(top, f"{path}/", rest)
    elif not rest and os.path.isfile(top + path):  # noqa: PTH113
        yield path


def _entries(top: str, folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(top + folder) as entries:
        return list(entries)
