"""Points from elsewhere: files that match a pattern, and the user's own functions."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import linecache
import math
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from fairway_core.documents import FieldError
from fairway_core.findings import Finding, Location, UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import unfit_character
from fairway_runner.jobs import project_files
from fairway_runner.jobs.job_fields import IDENTIFIER, ParamValue
from fairway_runner.jobs.sweep_values import MOST_POINTS

if TYPE_CHECKING:
    import os


def file_points(paths: Iterable[str]) -> Iterator[dict[str, ParamValue]]:
    """Yields a point per file: its path, its last part, and that without suffix."""
    for path in paths:
        name = path.rpartition("/")[2]
        yield {"file": path, "name": name, "stem": Path(name).stem}


def matching_names(pattern: str, names: Iterable[str], where: str) -> list[str]:
    """Returns the relative paths among `names` that the pattern matches, sorted, as
    `matching_files` matches the files of a folder. Raises FieldError, which says `where` the names
    are from, if there is none, too many, or a name that no command can have."""
    parts = _parts(pattern)
    found = sorted(name for name in names if len(parts) in _reached(parts, name))
    if len(found) > MOST_POINTS:
        message = f"`{pattern}` matches {len(found):,} files of {where}"
        raise FieldError(message, f"use a narrower pattern, for at most {MOST_POINTS:,}")
    if not found:
        raise FieldError(f"`{pattern}` matches no file of {where}", "for example **/*.csv")
    return _fit_for_use(found)


def _reached(parts: Sequence[str], path: str) -> set[int]:
    """Returns indices of the pattern's parts that may follow; `len(parts)` means a match."""
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
    """Returns the sorted paths, relative to `folder`, or absolute if the pattern is.

    Patterns are the shell's: `*`, `?` and `[…]` do not match names that begin with a dot. `**`
    matches any number of folders, but not those. Links are followed. Raises FieldError if nothing
    matches, if something is unreadable, and for more files than a sweep may have.
    """
    project_files.require_relative(pattern)
    absolute = pattern.startswith("/")
    parts = _parts(pattern)
    top, prefix = Path("/") if absolute else folder, ""
    while len(parts) > 1 and not _is_pattern(parts[0]):
        name, *parts = parts
        top, prefix = top / name, f"{prefix}{name}/"
        if top.is_symlink():
            project_files.require_inside(top, prefix)
    found: set[str] = set()
    try:
        for each in project_files.walk(top, partial(_leads_nowhere, parts)) if top.is_dir() else ():
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
    # Consecutive `**` are equal to one, and one at the end matches every file.
    parts = [
        part
        for part, last in zip(parts, ["", *parts], strict=False)
        if part != "**" or last != part
    ]
    return [*parts, "*"] if parts[-1:] == ["**"] else parts


def _leads_nowhere(parts: Sequence[str], path: str, entry: os.DirEntry[str]) -> bool:
    """Returns True if the pattern matches neither the entry nor anything below it."""
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


def function_points(reference: str, folder: Path) -> Iterator[dict[str, ParamValue]]:
    """Yields the mappings that the function yields or returns, one at a time. Its `folder` is first
    in `sys.path` while the user's code runs, and is removed afterwards, as is the module. Its
    output goes to standard error. Raises UserError at the line of the user's code if that fails or
    yields anything but a mapping of names to values; FieldError if there is no such function."""
    project_files.require_no_function()
    loaded = set(sys.modules)
    code = _UserCode(reference, folder.resolve())
    try:
        yield from code.points()
    finally:
        code.forget(loaded)


class _UserCode:
    """One function in a folder, and the state of Python's imports while it runs."""

    def __init__(self, reference: str, folder: Path) -> None:
        self._reference = reference
        self._module, _, self._name = reference.partition(":")
        self._folder = folder
        self._path = [str(folder), *sys.path]

    def points(self) -> Iterator[dict[str, ParamValue]]:
        function = self._function()
        result = self._run(function, function)
        if isinstance(result, dict | str) or not hasattr(type(result), "__iter__"):
            if inspect.iscoroutine(result):
                result.close()  # avoids the warning that it was never awaited
            message = f"returns {_kind(result)}: expected one mapping after another"
            raise self._fault(message, _line_of(function), "write `yield {…}` for each point")
        iterator = self._run(function, iter, result)
        try:
            end = object()
            number = 0
            while (value := self._run(function, next, iterator, end)) is not end:
                number += 1
                try:
                    yield _point(value)
                except _Unfit as unfit:
                    frame = getattr(iterator, "gi_frame", None)
                    line_at = _line_of(function)
                    if frame:  # the line of its `yield`
                        line_at = (frame.f_code.co_filename, frame.f_lineno)
                    hint = "a point is a mapping such as {'lr': 0.1}"
                    raise self._fault(f"point {number}: {unfit}", line_at, hint) from None
        finally:
            if inspect.isgenerator(iterator):
                with self._imports(), contextlib.suppress(Exception, SystemExit):
                    iterator.close()

    def forget(self, loaded: set[str]) -> None:
        """Removes the folder's modules from Python, so that no other job gets them."""
        for name in [name for name in sys.modules if name not in loaded]:
            module: object = sys.modules[name]
            if isinstance(module, ModuleType) and self._is_here(module):
                del sys.modules[name]

    def _function(self) -> Callable[..., Any]:
        importlib.invalidate_caches()
        top = self._module.partition(".")[0]
        if PathFinder.find_spec(top, [str(self._folder)]) is None:
            known = [path.stem for path in self._folder.glob("*.py")]
            message = f"there is no module `{top}` in {self._folder}"
            hint = did_you_mean(top, known) or "put its file beside the job file"
            raise FieldError(message, hint)
        module = self._run(None, importlib.import_module, self._module)
        if not self._is_here(module):
            message = f"Python has already loaded another module named `{self._module}`"
            raise FieldError(message, "rename the file in the job's folder")
        function = vars(module).get(self._name)
        if not callable(function):
            known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
            message = f"`{self._module}` has no function `{self._name}`"
            raise FieldError(message, did_you_mean(self._name, known) or "define it there")
        return cast("Callable[..., Any]", function)

    def _run(
        self, function: Callable[..., Any] | None, call: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Calls the user's code, and turns whatever it raises into a user's error."""
        try:
            with self._imports():
                return call(*arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing is not None and f"{self._module}.".startswith(f"{missing}."):
                message = f"there is no module `{missing}` in {self._folder}"
                raise FieldError(message, "put its file beside the job file") from None
            line_at = self._line_at(error) or (_line_of(function) if function else None)
            try:
                text = " ".join(str(error).split())[:300]
            except Exception:  # noqa: BLE001 - an exception's own __str__ is the user's code, too
                text = ""
            name = type(error).__name__
            raise self._fault((f"{name}: {text}" if text else name), line_at) from None

    @contextlib.contextmanager
    def _imports(self) -> Iterator[None]:
        path, quiet = sys.path[:], sys.dont_write_bytecode
        sys.path[:] = self._path
        # No bytecode in the job's folder.
        sys.dont_write_bytecode = True
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            # The user's code finds its own changes of the path when it continues.
            self._path = sys.path[:]
            sys.path[:] = path
            sys.dont_write_bytecode = quiet

    def _is_here(self, module: ModuleType) -> bool:
        origins = [vars(module).get("__file__"), *vars(module).get("__path__", ())]
        stem = str(self._folder.joinpath(*module.__name__.split(".")))
        endings = (f"{stem}.", f"{stem}/")
        return any(origin == stem or str(origin).startswith(endings) for origin in origins)

    def _line_at(self, error: BaseException) -> tuple[str, int] | None:
        """Returns the innermost line of the folder's own code in the traceback."""
        here = f"{self._folder}/"
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(here):
            return str(error.filename), error.lineno or 1
        line_at = None
        step: TracebackType | None = error.__traceback__
        while step is not None:
            file = step.tb_frame.f_code.co_filename
            if file.startswith(here):
                line_at = file, step.tb_lineno
            step = step.tb_next
        # Python wraps a StopIteration from a generator in an error without a line.
        return line_at or (self._line_at(error.__cause__) if error.__cause__ else None)

    def _fault(self, message: str, line_at: tuple[str, int] | None, hint: str = "") -> UserError:
        location = None
        if line_at is not None:
            file, line = line_at
            linecache.checkcache(file)
            location = Location.of_line(file, line, linecache.getline(file, line).rstrip("\r\n"))
        message = f"`{self._reference}`: {message}"
        return UserError([Finding("sweep-function", message, hint, location=location)])


class _Unfit(Exception):
    """Error that says why a value cannot be a point."""


def _point(value: Any) -> dict[str, ParamValue]:
    if not isinstance(value, dict):
        raise _Unfit(f"expected a mapping, found {_kind(value)}")
    point: dict[str, ParamValue] = {}
    for name, item in value.items():
        if not isinstance(name, str) or not re.fullmatch(IDENTIFIER, name):
            raise _Unfit(f"{name!a:.60} cannot name a parameter")
        try:
            if isinstance(item, list | tuple):
                point[str.__str__(name)] = [_scalar(each) for each in item]
            else:
                point[str.__str__(name)] = _scalar(item)
        except _Unfit as unfit:
            raise _Unfit(f"`{name}` is {unfit}") from None
    return point


def _scalar(value: Any) -> str | int | float | bool:
    """Converts the value to a plain one; numbers may be of any numeric type."""
    match value:
        case bool():
            return value
        case str():
            if character := unfit_character(value):
                raise _Unfit(f"text with the character {character}")
            return str.__str__(value)
        case numbers.Integral():
            number = int(value)
            if number.bit_length() > 1024:
                raise _Unfit("a whole number above 2^1024")
            return number
        case numbers.Real():
            try:
                real = float(value)
            except OverflowError:
                real = math.inf
            if not math.isfinite(real):
                raise _Unfit(f"{real}, which is not a finite number")
            return real
    raise _Unfit(f"{_kind(value)}: expected text, a number, true or false, or a list of them")


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _line_of(function: Callable[..., Any]) -> tuple[str, int] | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else None
