"""A project's own resources in the stacks of its environments: `extend:` in fairway.yaml.

It names a Python file with a function `extend(network, data, compute)`, which is called with the
three stacks once they contain the entire environment. The resources that it adds are checked,
planned and reviewed like the others.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from inspect import isawaitable, isgenerator, signature
from linecache import checkcache, getline
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fairway_core.documents import read
from fairway_core.findings import Finding, Location, Severity, UserError
from fairway_core.project import Project
from fairway_core.project_folder import find_project, from_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_stacks.compute import ComputeStack
    from fairway_stacks.data import DataStack
    from fairway_stacks.network import NetworkStack

_FUNCTION = "extend"
_DEFINED = rf"(async )?def {_FUNCTION}\b"


def project_extension() -> Path | None:
    """Returns the file that `extend:` in the project's fairway.yaml names, or None.

    Raises UserError if the file does not exist.
    """
    folder, project = find_project()
    if project is None:
        return None
    document = read(project)
    given = document.data if isinstance(document.data, dict) else {_FUNCTION: None}
    if _FUNCTION not in given and given.keys() <= Project.model_fields.keys():
        return None  # other commands validate the rest, which takes longer than all of this
    named = document.validate(Project).extend
    if named is None:
        return None
    file = folder / from_home(named)
    if not file.is_file():
        hint = f"write it, with a function `{_FUNCTION}(network, data, compute)`"
        place = document.location((_FUNCTION,))
        message = f"{named}: no such file"
        raise UserError([Finding("no-extension", message, hint, _FUNCTION, location=place)])
    return file


def left_out(done: str) -> Iterator[Finding]:
    """Yields a warning that what the project's extension adds is not `done`, such as counted, by a
    command that reads the environment file alone."""
    file = project_extension()
    if file is not None:
        message = f"{file.name}: what `{_FUNCTION}` adds is not {done} here"
        hint = "`fairway plan` shows it, with what it costs"
        yield Finding("extension", message, hint, severity=Severity.WARNING)


def extend(file: Path, network: NetworkStack, data: DataStack, compute: ComputeStack) -> None:
    """Calls the file's function to add to the stacks; the file may import modules beside it.

    Raises UserError with the file's line for any error there.
    """
    from fairway_constructs.cdk import Stack  # only now: it starts Node.js
    from fairway_constructs.cdk.component import end_short_addresses

    stacks = {"network": network, "data": data, "compute": compute}
    for stack in stacks.values():
        end_short_addresses(stack)  # a second network has resources of the same ids as the first
    module = ModuleType("fairway_extension")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # where dataclasses look for the names of types
    path = [*sys.path]
    sys.path.insert(0, str(file.parent.resolve()))
    checkcache(str(file))
    try:
        with faults_of(file):
            exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # noqa: S102
            function: Any = vars(module).get(_FUNCTION)
            try:
                signature(function).bind(**stacks)
            except TypeError:
                message = f"{file.name} has no function `{_FUNCTION}` that takes the stacks"
                hint = f"write: def {_FUNCTION}({', '.join(stacks)}):"
                found = Finding("no-extension", message, hint, location=_definition(file))
                raise UserError([found]) from None
            result = function(**stacks)
    finally:
        sys.path[:] = path
    if isgenerator(result) or isawaitable(result):
        result.close()  # type: ignore[union-attr]  # as generators and coroutines have
        message = f"`{_FUNCTION}` is async or has a `yield`, and adds nothing when it is called"
        hint = "make it a plain function"
        raise UserError([Finding("no-extension", message, hint, location=_definition(file))])
    own = [each for each in network.node.root.node.find_all() if isinstance(each, Stack)]
    others = [each.node.id for each in own if each not in stacks.values()]
    if others:
        message = f"`{_FUNCTION}` makes the stack `{others[0]}`, which nothing would deploy"
        hint = "make resources in the stacks that it is given"
        raise UserError([Finding("own-stack", message, hint, location=_definition(file))])


@contextmanager
def faults_of(file: Path) -> Iterator[None]:
    """Converts any exception into a UserError with the line of the file that led to it."""
    try:
        yield
    except UserError as error:
        place = _place(file, error)
        found = [replace(each, location=each.location or place) for each in error.findings]
        raise UserError(found, exit_code=error.exit_code) from None
    except SyntaxError as error:
        where = Path(error.filename or file)
        place = _line(where, error.lineno or 1, error.offset)
        raise UserError(
            [Finding("extension", error.msg, "Python does not read the file", location=place)]
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  # it is the user's code
        said = next((line for line in str(error).splitlines() if line.strip()), "")
        message, place = f"{type(error).__name__}: {said}".removesuffix(": "), _place(file, error)
        hint = "" if place else f"it is about what `{_FUNCTION}` has added"
        place = place or _definition(file)
        raise UserError([Finding("extension", message, hint, location=place)]) from None


def _place(file: Path, error: BaseException) -> Location | None:
    """Returns the innermost line of the file in an error's traceback, or None."""
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(file)
    ]
    return _line(file, lines[-1]) if lines else None


def _definition(file: Path) -> Location:
    """Returns the line on which the function begins, or the first."""
    lines = enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
    return _line(file, next((n for n, line in lines if re.match(_DEFINED, line)), 1))


def _line(file: Path, line: int, column: int | None = None) -> Location:
    text = getline(str(file), line).rstrip("\n")
    indent = len(text) - len(text.lstrip())
    start = column or indent + 1
    here = Path.cwd()
    shown = file.relative_to(here) if file.is_relative_to(here) else file
    return Location(str(shown), line, start, text, 1 if column else len(text) - indent)
