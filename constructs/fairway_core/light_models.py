"""Models that pydantic knows only where a document contains them.

Importing pydantic and building validators takes longer than a look at a run does, which reads only
records of our own. A `LightModel` is a dataclass that reads these itself.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from contextlib import suppress
from functools import cache, reduce
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as kinds_of

from fairway_core.findings import refuse_change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import core_schema

    from fairway_core.documents import Model

T = TypeVar("T")


class _Light(type):
    """A metaclass by which a light model that is made in Python is checked like any model."""

    # Type checkers must see the arguments of the dataclass.
    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            if not args:
                with suppress(ValueError):  # pydantic converts it, or says what is wrong
                    return cls.from_json(fields)
            return _made(cls, vars(_model_of(cls)(*args, **fields)))

    @property
    def __value__(cls) -> Any:
        """The model of the same fields, for code that walks annotations, as for a type alias."""
        return _model_of(cls)


class LightModel(metaclass=_Light):
    """Base of dataclasses that documents contain and that we keep records of. A field's metadata
    are arguments of pydantic's `Field`; validators in `Annotated` are Checks."""

    if not TYPE_CHECKING:
        __setattr__ = refuse_change

    @classmethod
    def from_json(cls, record: object) -> Self:
        """Reads a record of our own. Raises ValueError unless it has the fields, and each is of its
        type: nothing is converted."""
        kinds, values = _kinds(cls), {}
        if not isinstance(record, dict) or record.keys() - kinds.keys():
            raise ValueError(f"not a record of a {cls.__name__}")
        for each in _fields(cls):
            if each.name in record:
                values[each.name] = value = _read(kinds[each.name], record[each.name])
                if value is not None and not all(
                    _LIMITS[name](value, limit) for name, limit in each.metadata.items()
                ):
                    raise ValueError(f"`{each.name}` is beyond its limits")
            elif each.default_factory is not dataclasses.MISSING:
                values[each.name] = each.default_factory()
            elif each.default is not dataclasses.MISSING:
                values[each.name] = each.default
            else:
                raise ValueError(f"`{each.name}` is missing")
        new = _made(cls, values)
        new._check()
        return new

    @classmethod
    def model_validate(cls, data: object) -> Self:
        """Validates data from elsewhere. Raises pydantic's ValidationError."""
        return _made(cls, vars(_model_of(cls).model_validate(data)))

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Returns a copy with other values of some fields, which are not checked."""
        return _made(type(self), {**vars(self), **update})

    def record(self) -> dict[str, Any]:
        """Returns the fields that are not None as plain data, which `from_json` reads."""
        return {name: _plain(each) for name, each in vars(self).items() if each is not None}

    def _check(self) -> None:
        """Raises FieldError if fields do not fit together."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        model = _model_of(cls)
        fields = handler(model)
        read = core_schema.no_info_after_validator_function(
            lambda read: _made(cls, vars(read)), fields
        )
        made = core_schema.no_info_wrap_validator_function(
            lambda given, validate: given if isinstance(given, cls) else validate(given), read
        )
        written = core_schema.wrap_serializer_function_ser_schema(
            lambda given, write: write(model.model_construct(**vars(given))), schema=fields
        )
        return core_schema.json_or_python_schema(read, made, serialization=written)


def _made(cls: type[T], values: Mapping[str, Any]) -> T:
    new = cls.__new__(cls)
    vars(new).update(values)
    return new


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return kinds_of(cls, include_extras=True)


@cache
def _model_of(cls: type) -> Any:
    from pydantic import Field, create_model, model_validator

    from fairway_core.documents import Model

    def fit_together(model: Model) -> Model:
        _made(cls, vars(model))._check()
        return model

    fields: dict[str, Any] = {}
    for each in _fields(cls):
        known = {"default": each.default, "default_factory": each.default_factory}
        given: Any = {name: known[name] for name in known if known[name] is not dataclasses.MISSING}
        fields[each.name] = _kinds(cls)[each.name], Field(**given, **each.metadata)
    model = create_model(
        cls.__name__,
        __base__=Model,
        __doc__=cls.__doc__,
        __module__=cls.__module__,
        __validators__={"check": model_validator(mode="after")(fit_together)},  # type: ignore[dict-item]
        **fields,
    )
    # Where `inspect` finds the docstrings of its fields.
    model.__wrapped__ = cls  # type: ignore[attr-defined]
    return model


_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "min_length": lambda value, least: len(value) >= least,
    "allow_inf_nan": lambda value, _: math.isfinite(value),
}


def _read(kind: Any, value: Any) -> Any:
    """Returns a value of a record as that type. Raises ValueError if it is of another."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return reduce(lambda read, each: each.func(read), args[1:], _read(args[0], value))
    if origin in (Union, UnionType):  # of a type with None
        return None if value is None else _read(args[0], value)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(args[0], each) for each in value)
    if origin is dict and isinstance(value, dict):
        return {_read(args[0], name): _read(args[1], each) for name, each in value.items()}
    if isinstance(kind, type) and issubclass(kind, LightModel):
        return value if isinstance(value, kind) else kind.from_json(value)
    if kind is float and type(value) is int:
        return float(value)
    fit = [(type(each), each) for each in args] if origin is Literal else [(kind, value)]
    if (type(value), value) not in fit:  # for Python True and 1.0 equal 1
        raise ValueError(f"{value!r} is not of the type {kind}")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, LightModel):
        return value.record()
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
