"""What a model's type annotations say about a place in a document."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from fairway_core.yaml_text import DataPath


def fields_at(model: type[BaseModel], path: DataPath, data: Any) -> list[str]:
    """The keys that the models at `path` know; `data` chooses between branches of a union."""
    names: list[str] = []
    value = data
    for step in path:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
            continue
        value = value.get(step) if isinstance(value, Mapping) else None
    for annotation in annotations_at(model, path):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if not _literals_agree(annotation, value):
                continue
            names += [field.alias or name for name, field in annotation.model_fields.items()]
    return names


def annotations_at(model: type[BaseModel], path: DataPath) -> list[Any]:
    """All types that the value at `path` may have, unions taken apart; empty where unknown."""
    current: list[Any] = list(_branches(model))
    for step in path:
        current = [inner for each in current for inner in _step_into(each, step)]
    return current


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
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if (field.alias or name) == step:
                yield from _branches(field.annotation)
                return
        yield from extra_annotations(annotation)
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        yield Any
    elif isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        yield from _branches(arguments[1])
    elif isinstance(origin, type) and issubclass(origin, Sequence) and arguments:
        yield from _branches(arguments[0])


def extra_annotations(model: type[BaseModel]) -> Iterator[Any]:
    """The types of the keys that a model takes besides those that it names."""
    for each in model.__mro__[: model.__mro__.index(BaseModel)]:
        if "__pydantic_extra__" in inspect.get_annotations(each):
            mapping = inspect.get_annotations(each, eval_str=True)["__pydantic_extra__"]
            yield from _branches(get_args(mapping)[1])
            return


def _literals_agree(model: type[BaseModel], value: Any) -> bool:
    """Whether a `kind: Literal[...]` of the model is what the document says."""
    if not isinstance(value, Mapping):
        return True
    for name, field in model.model_fields.items():
        key = field.alias or name
        if get_origin(field.annotation) is Literal and key in value:
            return value[key] in get_args(field.annotation)
    return True
