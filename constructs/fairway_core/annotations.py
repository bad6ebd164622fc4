"""Types of fields at a place in a document, and hints for a wrong value there."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.yaml_text import DataPath


def fields_at(model: type[BaseModel], path: DataPath, data: Any) -> list[str]:
    """Returns the keys of the models at `path`; `data` chooses between branches of a union."""
    names: list[str] = []
    value = reduce(_value_at, path, data)
    for annotation in annotations_at(model, path):
        if _is_model(annotation) and _literals_agree(annotation, value):
            names += [field.alias or name for name, field in annotation.model_fields.items()]
    return names


def annotations_at(model: type[BaseModel], path: DataPath, data: Any = None) -> list[Any]:
    """Returns all types that the value at `path` may have, with unions split; empty if unknown.
    `data` chooses between branches of a union, if it is given."""
    current: list[Any] = list(_branches(model))
    for step in path:
        chosen = (e for e in current if not _is_model(e) or _literals_agree(e, data))
        current = [inner for each in chosen for inner in _step_into(each, step)]
        data = _value_at(data, step)
    return current


def holds(data: Any, step: str | int) -> bool:
    """Returns True if a list has that item, or a mapping that key."""
    if isinstance(data, list):
        return isinstance(step, int) and step < len(data)
    return isinstance(data, Mapping) and step in data


def _value_at(data: Any, step: str | int) -> Any:
    return data[step] if holds(data, step) else None


def _branches(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _branches(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for branch in get_args(annotation):
            yield from _branches(branch)
    elif hasattr(annotation, "__value__"):
        yield from _branches(annotation.__value__)
    else:
        yield annotation


def _step_into(annotation: Any, step: str | int) -> Iterator[Any]:
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if (field.alias or name) == step:
                yield from _branches(field.annotation)
                return
        yield from extra_annotations(annotation)
        return
    if annotation is Any:
        yield Any
    elif (item := _item_of(annotation, Mapping, Sequence)) is not None:
        yield from _branches(item)


def _item_of(annotation: Any, *kinds: type) -> Any:
    """Returns the type of the items of a list or mapping, or None if it is none of the `kinds`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not isinstance(origin, type) or not issubclass(origin, kinds) or not arguments:
        return None
    return arguments[-1 if issubclass(origin, Mapping) else 0]


def extra_annotations(model: type[BaseModel]) -> Iterator[Any]:
    """Yields the types of the extra keys that a model accepts besides its fields."""
    for each in model.__mro__[: model.__mro__.index(BaseModel)]:
        if "__pydantic_extra__" in inspect.get_annotations(each):
            mapping = inspect.get_annotations(each, eval_str=True)["__pydantic_extra__"]
            yield from _branches(get_args(mapping)[1])
            return


def _literals_agree(model: type[BaseModel], value: Any) -> bool:
    """Returns True unless the document's `kind` differs from the model's `kind: Literal[...]`."""
    if not isinstance(value, Mapping):
        return True
    for name, field in model.model_fields.items():
        key = field.alias or name
        if get_origin(field.annotation) is Literal and key in value:
            return value[key] in get_args(field.annotation)
    return True


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([mgt])(?:i?b)?", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*(?:-|\.\.|to|:)\s*(\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Fields named after their unit, in MiB.
_UNITS = {"mib": 1, "gib": 2**10, "tib": 2**20}
_LONGEST = 5  # values that an example repeats
# YAML would read these as lists, mappings, aliases, anchors, tags, comments or text in blocks.
_SIGNS = re.compile(r"[\[\]{},]|^[*&!#%@`|>]|^[?-] |: | #|:$")


def value_hint(key: str | int, value: Any, expected: Collection[str], types: Iterable[Any]) -> str:
    """Returns a hint with the field in its right form, or "" if the value does not suggest it.

    `expected` describes what fits ("a list"), `types` are the annotations of the field. An item of
    a list has a number for its key.

    >>> value_hint("gib", "2TiB", ["a whole number"], [int])
    'write the number alone: `gib: 2048`'
    >>> value_hint("uniform", {"low": 0, "high": 1}, ["a list"], [list[float]])
    'write the values in a list: `uniform: [0, 1]`'
    """
    if isinstance(key, int):
        is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
        return f"write it without quotes: {value}" if is_number else ""
    if isinstance(value, str) and {"a whole number", "a number"} & set(expected):
        return _of_text(key, value, types)
    if "a list" in expected and isinstance(value, Mapping):
        found = list(value.values())
        if found and len(found) <= _LONGEST and not any(map(_is_compound, found)):
            listed = ", ".join(_written(each) for each in found)
            return f"write the values in a list: `{key}: [{listed}]`"
    elif "a list" in expected and not _is_compound(value) and not any(map(_is_bound, expected)):
        return f"write a list, of one value too: `{key}: [{_written(value)}]`"
    if "a mapping" in expected and isinstance(value, list):
        return _of_list(key, value, types)
    if "a mapping" in expected and not _is_compound(value):
        return _of_one(key, value, types)
    return ""


def _of_text(key: str, value: str, types: Iterable[Any]) -> str:
    """Returns the hint for a size, a range or a number with other text in place of a number."""
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
    """Returns the hint for a list in place of named items or of fields."""
    for annotation in types:
        if (item := _item_of(annotation, Mapping)) is not None:
            compound = item is not str and _is_compound(value[0] if value else {})
            rest = "{…}" if compound else "…"
            if value and isinstance(value[0], str) and _holds_models(item):
                rest = "{…}"
            return f"write each under its name: `{key}: {{{_name(value)}: {rest}}}`"
        if _is_model(annotation):
            first = next(iter(annotation.model_fields), "NAME")
            return f"write its fields without hyphens: `{key}: {{{first}: …}}`"
    return ""


def _of_one(key: str, value: Any, types: Iterable[Any]) -> str:
    """Returns the hint for one value in place of fields: with required fields, or the first."""
    for annotation in filter(_is_model, types):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        needed = [name for name, field in fields.items() if field.is_required()]
        first, *others = needed or list(fields)[:1]
        kinds = [type(value)] + [float] * (type(value) is int)
        fits = any(each in kinds for each in annotations_at(annotation, (first,)))
        fits &= not isinstance(value, int | float) or value >= 0
        shown = [f"{first}: {_written(value) if fits else '…'}", *(f"{one}: …" for one in others)]
        return f"write `{key}: {{{', '.join(shown)}}}`"
    return ""


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


def _is_bound(expected: str) -> bool:
    """Returns True if one value fits too, within bounds."""
    return expected.startswith(("a number ", "text "))


def _is_compound(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)[:40]
    return f'"{text}"' if _SIGNS.search(text) and '"' not in text else text
