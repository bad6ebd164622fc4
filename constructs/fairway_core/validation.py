"""Findings from pydantic's errors in a document, worded for its author."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol

from fairway_agent.quick import dataclass
from fairway_core.annotations import annotations_at, fields_at, holds, value_hint
from fairway_core.findings import Finding, Location, UserError, counted
from fairway_core.suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from fairway_core.yaml_text import DataPath

# The types of errors that list the allowed values.
_OF_CHOICES = ("literal_error", "enum", "union_tag_invalid")

_OF_LENGTHS = ("too_short", "too_long")
_BOUNDS = {
    "greater_than_equal": ("a number of at least", "ge"),
    "greater_than": ("a number above", "gt"),
    "less_than_equal": ("a number of at most", "le"),
    "less_than": ("a number below", "lt"),
    "string_too_short": ("text with a length of at least", "min_length"),
    "string_too_long": ("text with a length of at most", "max_length"),
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
}
_EXPECTED = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "mapping": "a mapping",
    "none_required": "nothing",
    "path": "a path",
}


class Source(Protocol):
    """Plain data with the location of each value: a `Document`."""

    @property
    def data(self) -> Any:
        """The data that was validated."""

    def location(self, path: DataPath, *, of_key: bool = False) -> Location | None:
        """Returns the location of the value (with `of_key`, the key), or None without a file."""

    def quoted(self, path: DataPath, value: Any) -> str:
        """Returns the text to type so that a number or a boolean is read as text."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a model that is created in Python."""

    data: Mapping[str, Any]

    def location(self, path: DataPath, *, of_key: bool = False) -> None:
        """Returns None: arguments have no file."""

    def quoted(self, path: DataPath, value: Any) -> str:  # noqa: ARG002  # as a document has it
        """Returns the number or boolean as a quoted string."""
        return repr(str(value))


def findings_of(error: ValidationError, document: Source, model: type[BaseModel]) -> list[Finding]:
    """Returns one finding per faulty place, in document order."""
    by_path: dict[DataPath, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        by_path.setdefault(_document_path(details, document.data), []).append(details)
    # An error deep inside a value is more specific than errors of the union's other branches.
    telling = [
        path
        for path in by_path
        if not any(len(other) > len(path) > 0 and other[: len(path)] == path for other in by_path)
    ]
    # A misspelt key is reported as unknown, but not as missing too.
    meant = set()
    for path in telling:
        if by_path[path][0]["type"] == "extra_forbidden":
            near = nearest(str(path[-1]), fields_at(model, path[:-1], document.data))
            meant.add((*path[:-1], near or path[-1]))
    telling = [
        path for path in telling if path not in meant or by_path[path][0]["type"] != "missing"
    ]
    findings = [_finding(path, by_path[path], document, model) for path in telling]
    return sorted(findings, key=lambda finding: finding.position)


def describe(value: Any) -> str:
    """Describes a value for a message: by its type, and with the value itself if it is short.

    >>> describe("three"), describe(2), describe(None), describe([1]), describe(object())
    ('the text `three`', 'the number 2', 'nothing', 'a list', 'an `object`')
    """
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            digits = str(value)
            return f"the number {digits if len(digits) <= 60 else digits[:57] + '...'}"
        case str():
            return f"the text `{value[:60]}`"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    name = type(value).__name__  # from a program: no document contains such a value
    return f"a{'n' if name[0] in 'AEIOUaeiou' else ''} `{name}`"


def require_list(name: str, given: object) -> None:
    """Raises UserError for text in place of a list: each of its letters would become an item."""
    if isinstance(given, str):
        message = f"`{name}`: expected a list, found {describe(given)}"
        hint = f"write a list, of one value too: {name}=[{given[:60]!r}]"
        raise UserError.of("wrong-type", message, hint)


def _document_path(details: ErrorDetails, data: Any) -> DataPath:
    """Returns the error's path in the document: pydantic's, without names of union branches."""
    path: list[str | int] = []
    value = data
    steps = details["loc"]
    for position, step in enumerate(steps):
        if holds(value, step):
            value = value[step]
        elif not (position == len(steps) - 1 and details["type"] == "missing"):
            continue
        path.append(step)
    ctx = details.get("ctx", {})
    if details["type"].startswith("union_tag"):
        return (*path, ctx["discriminator"].strip("'"))
    return (*path, *getattr(ctx.get("error"), "path", ()))


def _finding(
    path: DataPath, errors: list[ErrorDetails], document: Source, model: type[BaseModel]
) -> Finding:
    first = errors[0]
    dotted = ".".join(str(step) for step in path)
    match first["type"]:
        case "missing" | "union_tag_not_found":
            location = document.location(path[:-1])
            sign = ":" if location else "="
            message, hint = f"`{dotted}` is missing", f"add `{path[-1]}{sign}`"
            return Finding("missing-key", message, hint, dotted, location=location)
        case "extra_forbidden":
            known = fields_at(model, path[:-1], document.data)
            hint = _foreign(path, model) or did_you_mean(str(path[-1]), known, most=40)
            location = document.location(path, of_key=True)
            message = f"unknown key `{path[-1]}`"
            return Finding("unknown-key", message, hint, dotted, location=location)
    # Among the branches of a union, the one with an error of its own is the one meant.
    said = (details.get("ctx", {}).get("error") for details in errors)
    cause = next(filter(None, said), None)
    of_key = first["loc"][-1:] == ("[key]",) or getattr(cause, "of_key", False)
    location = document.location(path, of_key=of_key)
    if cause is not None:
        if location and getattr(cause, "secret", False):
            location = location.hidden
        message = f"`{dotted}`: {cause}" if dotted else str(cause)
        id_, hint = getattr(cause, "id", "bad-value"), getattr(cause, "hint", "")
        return Finding(id_, message, hint, dotted, location=location)
    return _type_finding(
        path, errors, document, location, annotations_at(model, path, document.data)
    )


def _foreign(path: DataPath, model: type[BaseModel]) -> str:
    """Returns the model's hint for a key of another program, or "" for any other key."""
    for annotation in annotations_at(model, path[:-1]):
        known: Mapping[str, str] = getattr(annotation, "FOREIGN", {})
        if path[-1] in known:
            return known[str(path[-1])]
    return ""


def _type_finding(
    path: DataPath,
    errors: list[ErrorDetails],
    document: Source,
    location: Location | None,
    types: list[Any],
) -> Finding:
    first = errors[0]
    dotted = ".".join(str(step) for step in path)
    label = f"`{dotted}`: " if dotted else ""
    # The choices of all branches of a union are joined.
    chosen = [details["type"] in _OF_CHOICES for details in errors]
    choices = [each for details in compress(errors, chosen) for each in _choices(details)]
    one_of = "one of " + ", ".join(f"`{choice}`" for choice in dict.fromkeys(choices))
    kinds = zip(errors, chosen, strict=True)
    expected = list(dict.fromkeys(one_of if one else _expected(each) for each, one in kinds))
    value = first["ctx"]["tag"] if first["type"] == "union_tag_invalid" else first["input"]
    hint, found = "", describe(value)
    if value is None:
        hint = "give it a value or remove the key"
    elif first["type"] == "string_type" and not isinstance(value, Mapping | list):
        hint = f"put it in quotes: {document.quoted(path, value)}"
    elif first["type"] in _OF_CHOICES:
        near = nearest(str(value), choices)
        hint = f"did you mean `{near}`?" if near else ""
        if near == value:  # the choice is not text
            hint = f"write it without quotes: {near}"
    elif first["type"] in _OF_LENGTHS:
        most, found = first["ctx"].get("max_length"), first["ctx"]["actual_length"]
        hint = "add one, or remove the key" if most is None else f"remove {found - most}"
    elif path:
        hint = value_hint(path[-1], value, expected, types)
    message = f"{label}expected {' or '.join(expected)}, found {found}"
    return Finding("wrong-type", message, hint, dotted, location=location)


def _expected(details: ErrorDetails) -> str:
    kind = details["type"]
    ctx = details.get("ctx", {})
    if kind == "float_type" and type(details["input"]) is int:
        return "a finite number"  # it exceeds the range of a float
    for stem, words in _EXPECTED.items():
        if kind in (f"{stem}_type", f"{stem}_parsing", stem):
            return words
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        bound = ctx[key]
        if kind in _OF_LENGTHS:
            return f"{words} {counted(bound, 'item')}"
        is_integral = isinstance(bound, float) and bound.is_integer()
        return f"{words} {int(bound) if is_integral else bound}"
    if kind in ("int_from_float", "int_parsing_size"):
        return "a whole number"
    said = details["msg"].removeprefix("Input should be ")
    return said[:1].lower() + said[1:]


def _choices(details: ErrorDetails) -> Iterable[str]:
    ctx = details.get("ctx", {})
    text = str(ctx.get("expected") or ctx.get("expected_tags", ""))
    return [part.strip().strip("'") for part in text.replace(" or ", ", ").split(",")]
