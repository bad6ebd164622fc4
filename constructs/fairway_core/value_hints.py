"""What to type in place of a value of the wrong kind, as far as the value tells what was meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from fairway_core.annotations import annotations_at

if TYPE_CHECKING:
    from collections.abc import Iterable

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([mgt])(?:i?b)?", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*(?:-|\.\.|to|:)\s*(\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Fields whose name is their unit, each in MiB.
_UNITS = {"mib": 1, "gib": 2**10, "tib": 2**20}
_LONGEST = 5  # values that an example repeats


def value_hint(key: str, value: Any, expected: Collection[str], types: Iterable[Any]) -> str:
    """The field as it should be written; empty where the value does not tell.

    `expected` are the words for what fits ("a list"), `types` the annotations of the field.

    >>> value_hint("gib", "2TiB", ["a whole number"], [int])
    'write the number alone: `gib: 2048`'
    >>> value_hint("uniform", {"low": 0, "high": 1}, ["a list"], [list[float]])
    'write the values in a list: `uniform: [0, 1]`'
    """
    if isinstance(value, str) and {"a whole number", "a number"} & set(expected):
        return _of_text(key, value, types)
    if "a list" in expected and isinstance(value, Mapping):
        found = list(value.values())
        if found and len(found) <= _LONGEST and not any(map(_is_compound, found)):
            listed = ", ".join(_written(each) for each in found)
            return f"write the values in a list: `{key}: [{listed}]`"
    elif "a list" in expected and not _is_compound(value):
        return f"write a list, of one value too: `{key}: [{_written(value)}]`"
    if "a mapping" in expected and isinstance(value, list):
        return _of_list(key, value, types)
    if "a mapping" in expected and not _is_compound(value):
        return _of_one(key, value, types)
    return ""


def _of_text(key: str, value: str, types: Iterable[Any]) -> str:
    """A size, a range or a number with words around it, where a number belongs."""
    text = value.strip()
    if (ends := _RANGE.fullmatch(text)) and any(
        _is_model(each) and {"min", "max"} <= each.model_fields.keys() for each in types
    ):
        return f"write `{key}: {{min: {ends[1]}, max: {ends[2]}}}`"
    if (size := _SIZE.fullmatch(text)) and key in _UNITS:
        number = Fraction(size[1]) * _UNITS[f"{size[2].lower()}ib"] / _UNITS[key]
        if number.denominator == 1:
            return f"write the number alone: `{key}: {number}`"
    found = _NUMBER.findall(text)
    return f"write the number alone: `{key}: {found[0]}`" if len(found) == 1 else ""


def _of_list(key: str, value: list[Any], types: Iterable[Any]) -> str:
    """A list where each of its parts is to have a name."""
    for annotation in types:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
            rest = "{…}" if _is_compound(value[0] if value else {}) else "…"
            if value and isinstance(value[0], str) and _holds_models(arguments[1]):
                rest = "{…}"
            return f"write each under its name: `{key}: {{{_name(value)}: {rest}}}`"
        if _is_model(annotation):
            first = next(iter(annotation.model_fields), "NAME")
            return f"write its fields without hyphens: `{key}: {{{first}: …}}`"
    return ""


def _of_one(key: str, value: Any, types: Iterable[Any]) -> str:
    """One value where fields are wanted: in those that must be there, or in the first."""
    for annotation in filter(_is_model, types):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        needed = [name for name, field in fields.items() if field.is_required()]
        first, *others = needed or list(fields)[:1]
        fits = any(_takes(each, value) for each in annotations_at(annotation, (first,)))
        shown = [f"{first}: {_written(value) if fits else '…'}", *(f"{one}: …" for one in others)]
        return f"write `{key}: {{{', '.join(shown)}}}`"
    return ""


def _takes(annotation: Any, value: Any) -> bool:
    return annotation is type(value) or (annotation is float and type(value) is int)


def _name(value: list[Any]) -> str:
    first = value[0] if value else None
    if isinstance(first, Mapping):
        first = first.get("name", first.get("id"))
    fits = isinstance(first, str) and re.fullmatch(r"[A-Za-z_][\w-]{0,30}", first)
    return str(first) if fits else "NAME"


def _holds_models(annotation: Any) -> bool:
    return _is_model(annotation) or any(map(_holds_models, get_args(annotation)))


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_compound(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:40]
