"""Spans of time as people write them: `90d`, `12h`, `10m`, `25s`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from fairway_core.documents import BY_HAND, FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = (
    36_500 * 86400
)  # far beyond what any job or retention wants, and within what services take
_PATTERN = r"([0-9]+(?:\.[0-9]+)?)([smhd])"
_SPAN = {"type": "string", "pattern": f"^{_PATTERN}$", "examples": ["25s", "12h"]}
_DAYS = {**_SPAN, "examples": ["14d", "90d"]}


def seconds_of(value: object) -> float:
    """The span in seconds; FieldError where it is not a positive one of a hundred
    years at most.

    >>> seconds_of("1.5h")
    5400.0
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)  # a model's own dump, read again
    match = re.fullmatch(_PATTERN, value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise FieldError(f"`{value}` is not a span of time", "write it as 25s, 10m, 12h or 90d")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST:
        raise FieldError(f"`{value}` is longer than a hundred years", "write 36500d or less")
    return seconds


def _span(value: object, info: ValidationInfo) -> float:
    _require_unit(value, info, ("s", "m", "h"))
    return seconds_of(value)


Span = Annotated[
    float,
    BeforeValidator(_span),
    WithJsonSchema(_SPAN),
]
"""A span in a document, in seconds once it is read."""


def days_of(value: object) -> int:
    """The span in days; FieldError where it is not a number of whole days.

    >>> days_of("90d")
    90
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value  # a model's own dump, read again
    days, rest = divmod(seconds_of(value), _SECONDS["d"])
    if rest or isinstance(value, int | float):
        raise FieldError(f"`{value}` is not a number of whole days", "write it as 90d")
    return int(days)


def _days(value: object, info: ValidationInfo) -> int:
    _require_unit(value, info, ("d",))
    return days_of(value)


Days = Annotated[
    int,
    BeforeValidator(_days),
    WithJsonSchema(_DAYS),
]
"""A span in a document of whole days, in days once it is read."""


def _require_unit(value: object, info: ValidationInfo, units: Sequence[str]) -> None:
    """FieldError for a number alone in what a person wrote: a model's own dump has such."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        return  # whatever else is wrong with it
    if (info.context or {}).get(BY_HAND):
        fit = [f"{value}{unit}" for unit in units if value * _SECONDS[unit] <= _LONGEST]
        *others, last = fit or ["36500d or less"]
        hint = f"write {', '.join(others)} or {last}" if others else f"write {last}"
        raise FieldError(f"`{value}` has no unit", hint)


def written(value: Any, schema: Mapping[str, Any]) -> Any:
    """A field's default as people write it: a span with its unit, anything else as it is.

    >>> written(600, _SPAN), written(5400.0, _SPAN), written(30, _DAYS), written(8, {})
    ('10m', '90m', '30d', 8)
    >>> written(10.0, {"anyOf": [_SPAN, {"type": "null"}]})
    '10s'
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    for branch in schema.get("anyOf", ()):  # such as a span or null
        if (found := written(value, branch)) != value:
            return found
    if _DAYS.items() <= schema.items():
        return f"{value}d"
    if _SPAN.items() <= schema.items():
        unit = next((unit for unit in "dhm" if value % _SECONDS[unit] == 0), "s")
        return f"{value / _SECONDS[unit]:g}{unit}"
    return value
