"""The files that a pattern matches, of a folder or of a list of names, in an order that depends on
their names alone."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_core.yaml_text import unfit_character
from fairway_runner.jobs.confined import require_inside, require_relative
from fairway_runner.jobs.sweep.axes import MOST_POINTS
from fairway_runner.jobs.walk import walk

if TYPE_CHECKING:
    import os
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
    found = sorted(name for name in names if len(parts) in _reached(parts, name))
    if len(found) > MOST_POINTS:
        message = f"`{pattern}` matches {len(found):,} files of {where}"
        raise FieldError(message, f"use a narrower pattern, for at most {MOST_POINTS:,}")
    if not found:
        raise FieldError(f"`{pattern}` matches no file of {where}", "for example **/*.csv")
    return _fit_for_use(found)


def _reached(parts: Sequence[str], path: str) -> set[int]:
    """With which parts of a pattern it can go on behind a path; `len(parts)`: it matches."""
    at = {0}
    for name in path.split("/"):
        at |= {each + 1 for each in at if each < len(parts) and parts[each] == "**"}
        at = {
            each + (parts[each] != "**")
            for each in at
            if each < len(parts) and _fits_one(parts[each], name)
        }
    return at


def _fits_one(part: str, name: str) -> bool:
    if not _is_pattern(part):
        return part == name
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def matching_files(pattern: str, folder: Path) -> list[str]:
    """The sorted paths, relative to `folder` or absolute as the pattern is.

    Patterns are the shell's: `*`, `?` and `[…]` leave out names that begin with a point.
    `**` is any number of folders, but not those. Links are followed. Raises FieldError where
    nothing matches, where something cannot be read, and for more files than a sweep may have.
    """
    require_relative(pattern)
    absolute = pattern.startswith("/")
    parts = _parts(pattern)
    top, prefix = Path("/") if absolute else folder, ""
    while len(parts) > 1 and not _is_pattern(parts[0]):
        name, *parts = parts
        top, prefix = top / name, f"{prefix}{name}/"
        if top.is_symlink():
            require_inside(top, prefix)
    found: set[str] = set()
    try:
        for each in walk(top, partial(_leads_nowhere, parts)) if top.is_dir() else ():
            if each.is_file:
                found.add(prefix + each.path)
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
    # Several `**` in a row are one, and one at the end has every file.
    parts = [
        part
        for part, last in zip(parts, ["", *parts], strict=False)
        if part != "**" or last != part
    ]
    return [*parts, "*"] if parts[-1:] == ["**"] else parts


def _leads_nowhere(parts: Sequence[str], path: str, entry: os.DirEntry[str]) -> bool:
    """Whether the pattern matches neither the entry nor anything below it."""
    reached = _reached(parts, path)
    end = len(parts)
    return not any(each < end if entry.is_dir() else each == end for each in reached)


def _fit_for_use(paths: list[str]) -> list[str]:
    for path in paths:
        if character := unfit_character(path):
            raise FieldError(f"the file {path!a} has {character} in its name", "rename the file")
    return paths


def _is_pattern(part: str) -> bool:
    return re.search(r"[*?\[]", part) is not None
