"""Fields that several files have: durations, numbers, email addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticKnownError, core_schema

from fairway_core.documents import BY_HAND, Check, FieldError, require
from fairway_core.light_fields import LONGEST, SPAN_PATTERN, UNITS, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _NoEqual:
    """Refuses `true` and 1.0 where a Literal has 1: Python says that they are equal."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        inner = handler(source)

        def check(value: object) -> object:
            if isinstance(value, bool | float):
                choices = " or ".join(map(repr, inner["expected"]))
                raise PydanticKnownError("literal_error", {"expected": choices})
            return value

        return core_schema.no_info_before_validator_function(check, inner)


NO_EQUAL = _NoEqual()

_SPAN = {"type": "string", "pattern": f"^{SPAN_PATTERN}$", "examples": ["25s", "12h"]}
_DAYS = {**_SPAN, "examples": ["14d", "90d"]}


def _span(value: object, info: ValidationInfo) -> float:
    _require_unit(value, info, ("s", "m", "h"))
    return seconds_of(value)


def _as_written(seconds: float, info: SerializationInfo) -> Any:
    return f"{Decimal(str(seconds)):f}s" if (info.context or {}).get(BY_HAND) else seconds


Span = Annotated[float, BeforeValidator(_span), PlainSerializer(_as_written), WithJsonSchema(_SPAN)]
"""A duration in a document, in seconds after validation."""


def days_of(value: object) -> int:
    """Returns the duration in days. Raises FieldError unless it is a number of whole days."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value  # from a model's own dump
    days, rest = divmod(seconds_of(value), UNITS["d"])
    if rest or isinstance(value, int | float):
        raise FieldError(f"`{value}` is not a number of whole days", "write it as 90d")
    return int(days)


def _days(value: object, info: ValidationInfo) -> int:
    _require_unit(value, info, ("d",))
    return days_of(value)


Days = Annotated[int, BeforeValidator(_days), WithJsonSchema(_DAYS)]
"""A duration in whole days in a document, in days after validation."""


def days_between(least: int, most: int, what: str) -> Check:
    """Returns a validator for days within Azure's range for `what`, such as "logs can be kept"."""

    def check(days: int) -> None:
        if not least <= days <= most:
            raise FieldError(
                f"{what} for {least}d to {most}d, not {days}d",
                f"the nearest is {min(max(days, least), most)}d",
            )

    return Check(check)


Count = Annotated[int, Field(ge=1)]
"""A number of things, at least one."""
Number = Annotated[int, Field(ge=0)]
"""A number of things, possibly zero."""


def _require_unit(value: object, info: ValidationInfo, units: Sequence[str]) -> None:
    """Raises FieldError for a bare number in a document; a model's own dump may contain one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        return  # other validators report what else is wrong with it
    if (info.context or {}).get(BY_HAND):
        fit = [f"{value}{unit}" for unit in units if value * UNITS[unit] <= LONGEST]
        *others, last = fit or ["36500d or less"]
        hint = f"write {', '.join(others)} or {last}" if others else f"write {last}"
        raise FieldError(f"`{value}` has no unit", hint)


def written_span(value: Any, schema: Mapping[str, Any]) -> Any:
    """Returns a field's default as people write it: a duration with a unit, others unchanged.

    >>> written_span(600, _SPAN), written_span(5400.0, _SPAN), written_span(30, _DAYS)
    ('10m', '90m', '30d')
    >>> written_span(8, {})
    8
    >>> written_span(10.0, {"anyOf": [_SPAN, {"type": "null"}]})
    '10s'
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    for branch in schema.get("anyOf", ()):  # such as a span or null
        if (found := written_span(value, branch)) != value:
            return found
    if _DAYS.items() <= schema.items():
        return f"{value}d"
    if _SPAN.items() <= schema.items():
        unit = next((unit for unit in "dhm" if value % UNITS[unit] == 0), "s")
        return f"{value / UNITS[unit]:g}{unit}"
    return value


PLACEHOLDER = "you@example.com"
"""The address in examples and new projects, which nobody reads."""

_EMAIL = r"[^@\s,;<>]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"


def require_unique(
    items: Sequence[Any],
    message: str = "`{}` is named twice",
    path: tuple[str | int, ...] = (),
    *,
    fold: Callable[[Any], object] = lambda item: item,
) -> None:
    """Raises FieldError for the first repeated item of a list at `path`; items that `fold` maps to
    one value count as equal."""
    seen = set()
    for index, item in enumerate(items):
        if fold(item) in seen:
            raise FieldError(message.format(item), "name it once", (*path, index))
        seen.add(fold(item))


Email = Annotated[
    str,
    require(
        lambda address: re.fullmatch(_EMAIL, address) and address.isprintable(),
        "`{}` is not an email address",
        "for example team@example.com",
        _EMAIL,
    ),
]


_DIFFERING = Check(partial(require_unique, fold=str.lower))
Emails = Annotated[tuple[Email, ...], _DIFFERING]
_SOMEONE = require(bool, "nobody would get the mail", "name an address: team@example.com")
Contacts = Annotated[Sequence[Email], _SOMEONE, _DIFFERING]
"""Addresses for mail, at least one."""
