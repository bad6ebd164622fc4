"""Fields set on the command line: `-s params.epochs=2`, parsed as the type of the field."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn, get_origin

from pydantic import BaseModel

from fairway_core.annotations import annotations_at, fields_at
from fairway_core.findings import Finding, Location, UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.validation import describe
from fairway_core.yaml_text import DataPath, parse_yaml, unfit_character

COMMAND_LINE = "command line"
"""The name in place of a file in findings about the command line."""


def apply(data: Any, assignment: str, model: type[BaseModel]) -> tuple[Any, DataPath, Location]:
    """Returns a copy of `data` with a `dotted.path=value` set, the path, and its location.

    A text field takes the value verbatim; any other parses it as YAML. A parameter whose type the
    model leaves open keeps the type that it had; a new one is text if YAML would make it a value
    that a parameter cannot have.
    """
    key, separator, text = assignment.partition("=")
    steps = key.split(".")
    if not separator or not all(steps):
        message = f"`-s {assignment}`: expected KEY=VALUE"
        raise UserError.of("bad-override", message, "for example -s params.epochs=2")
    shown = f"-s {assignment}".replace("\n", "\\n")
    location = Location(COMMAND_LINE, 1, len(f"-s {key}=") + 1, shown, max(1, len(text)))
    if character := unfit_character(assignment):
        _fail(f"the value holds the character {character}", location)
    result = copy.deepcopy(data)
    path: DataPath = ()
    holder = result
    for position, step in enumerate(steps):
        index = _index(holder, step, location, ".".join(steps[:position]))
        path = (*path, index)
        if position == len(steps) - 1:
            before = _get(holder, index)
            holder[index] = _typed(text, before, annotations_at(model, path), location, key)
            break
        if _get(holder, index) is None and isinstance(holder, dict):
            _refuse_unless_mapping(model, path, data, location)
            holder[index] = {}
        holder = holder[index]
    return result, path, location


def _index(holder: Any, step: str, location: Location, parent: str) -> str | int:
    if isinstance(holder, dict):
        return step
    if isinstance(holder, list) and step.isdecimal() and int(step) < len(holder):
        return int(step)
    if isinstance(holder, list) and parent:
        _fail(f"`{parent}` has no item {step}: it has {len(holder)}, counted from 0", location)
    label = f"`{parent}`" if parent else "the document"
    _fail(f"{label} is {describe(holder)}: there is nothing below it", location)


def _get(holder: Any, index: str | int) -> Any:
    return holder.get(index) if isinstance(holder, dict) else holder[index]


def _refuse_unless_mapping(
    model: type[BaseModel], path: DataPath, data: Any, location: Location
) -> None:
    annotations = annotations_at(model, path)
    if not annotations:
        known = fields_at(model, path[:-1], data)
        hint = did_you_mean(str(path[-1]), known)
        _fail(f"unknown key `{path[-1]}`", location, hint, "unknown-key")
    if all(each in (str, int, float, bool, type(None)) for each in annotations):
        dotted = ".".join(str(step) for step in path)
        _fail(f"`{dotted}` takes one value: there is nothing below it", location)


def _typed(text: str, before: Any, annotations: list[Any], location: Location, key: str) -> Any:
    takes_text = any(each is str for each in annotations)
    others = [each for each in annotations if each not in (str, type(None))]
    if takes_text and not others:
        return text
    if isinstance(before, str) and (takes_text or Any in annotations):
        return text
    is_number = isinstance(before, int | float)
    value = _value(text, location, takes_text=takes_text and not is_number)
    if isinstance(value, dict) and takes_text and not any(map(_is_mapping, others)):
        value = text
    if isinstance(before, bool) != isinstance(value, bool) and is_number:
        _fail(f"`{key}` is {describe(before)}: expected the same kind of value", location)
    is_open = Any in annotations or {str, int, float} <= set(annotations)  # in the model
    if is_number and is_open:
        if not isinstance(value, int | float):
            found = f"expected a number, found {describe(value)}"
            _fail(f"`{key}` is {describe(before)}: {found}", location)
        return float(value) if isinstance(before, float) else value
    return value


def _value(text: str, location: Location, *, takes_text: bool) -> Any:
    """Parses the text as YAML; if that fails, returns it if the field takes text too."""
    if not text.strip():
        return text if takes_text else None
    try:
        return parse_yaml(text, COMMAND_LINE).data
    except UserError as error:
        if not takes_text:
            _fail(f"the value cannot be read: {error.findings[0].message}", location)
        return text


def _is_mapping(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return annotation is Any or (isinstance(kind, type) and issubclass(kind, (BaseModel, Mapping)))


def _fail(message: str, location: Location, hint: str = "", id: str = "bad-override") -> NoReturn:  # noqa: A002
    raise UserError([Finding(id, message, hint, location=location)])
