"""What a job's parameters are: their names, and the values that they take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from fairway_core.documents import FieldError
from fairway_core.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_core.documents import Document
    from fairway_core.yaml_text import DataPath

Scalar = str | int | float | bool
ParamValue = Scalar | list[Scalar]


def is_identifier(text: str) -> bool:
    """Whether the text can name a parameter."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", text) is not None


def _identifier(value: str) -> str:
    if not is_identifier(value):
        raise FieldError(f"`{value[:60]}` is not a name", "use letters, digits and underscores")
    return value


Identifier = Annotated[str, AfterValidator(_identifier)]


def changed_numbers(document: Document, names: Collection[str]) -> Iterator[Finding]:
    """Warns of each number for a parameter of these names that a template prints otherwise than it
    is written: of 1.10, which prints as 1.1, and not of 1e-4, which can only be meant as one."""
    for path, value in _numbers({key: document.data.get(key) for key in ("params", "sweep")}, ()):
        written = document.written(path, value)
        is_named = path[0] == "params" or not {*path[-2:]}.isdisjoint(names)
        if is_named and written != str(value) and not re.search("[eE]-", written):
            dotted = ".".join(map(str, path))
            message = f"`{dotted}`: a template prints {value} for {written}"
            hint = f"where it is text, put it in quotes: {document.quoted(path, value)}"
            location = document.location(path)
            yield Finding("changed-number", message, hint, dotted, Severity.WARNING, location)


def _numbers(value: Any, path: DataPath) -> Iterator[tuple[DataPath, int | float]]:
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(item, (*path, step))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
