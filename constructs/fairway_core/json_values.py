"""Values of JSON that may be anything: somebody else wrote the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MOST = 10**9


def at(value: Any, steps: Sequence[str]) -> Any:
    """Returns the value at a path, of blocks the first; True if a mask covers all of it."""
    for step in steps:
        value = first(value).get(step) if value is not True else True
    return value


def first(value: Any) -> Mapping[str, Any]:
    """A block: itself, or the first of a list."""
    one = value[0] if isinstance(value, list) and value else value
    return one if isinstance(one, dict) else {}


def blocks(value: Any) -> list[Mapping[str, Any]]:
    """All blocks of a list; Terraform's JSON may have a single one as an object."""
    return [each for each in listed(value) or [value] if isinstance(each, dict)]


def number(value: Any) -> float:
    """A number or a switch; 0 for nothing, and no more than can be written shortly."""
    return max(-_MOST, min(value, _MOST)) if isinstance(value, int | float) else 0


def listed(value: Any) -> list[Any]:
    """A list, as it is or in place of what is none: hidden or unknown."""
    return value if isinstance(value, list) else []


def leaves(value: Any) -> Iterator[Any]:
    """Each value that is no object and no list, at any depth."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def as_read(text: str) -> Any:
    """Parses a text that holds a JSON object or list, since Azure rewrites its spaces.

    >>> as_read('{"a": 1}') == as_read('{"a":1}')
    True
    """
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
