"""What a run's files may hold: shapes that are checked before anything relies on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Unfit, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST_TASKS = 1_000_000  # ten times what a sweep may have
_LAST_SECOND = 253_402_300_800.0  # the year 10000, which no calendar of Python's has

STRANGE = "nothing was taken from its answer; is it still the same host?"
"""What is said where a cluster has sent something of another shape."""


def check(facts: Mapping[str, Any], shape: Mapping[str, Callable[[Any], bool]], what: str) -> None:
    """Unfit where a value that is there is not of its shape."""
    for name, is_right in shape.items():
        if name in facts and not is_right(facts[name]):
            raise Unfit(f"`{name}` of {what} is {shown(facts[name])}")


def mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit(f"{shown(what)} is not a mapping")
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _are_plain(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_plain, value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def is_count(value: Any) -> bool:
    return _is_whole(value) and bool(value >= 0)


def _is_moment(value: Any) -> bool:
    # Neither NaN nor a whole number that no float can hold lies between the two.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < _LAST_SECOND


def _is_patterns(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_pattern, value.values()))


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error, RecursionError, OverflowError):
        return False
    return isinstance(value, str)


RECORD = {
    "id": _is_plain,
    "name": _is_plain,
    "target": _is_plain,
    "created": _is_moment,
    "tasks": lambda value: is_count(value) and value <= _MOST_TASKS,
    "job_file": _is_text,
    "fairway": _is_plain,
    "metrics": _is_patterns,
    "engine": _is_plain,
    "tags": _are_plain,
    "note": _is_text,
}
LABELS = {name: RECORD[name] for name in ("tags", "note")}
