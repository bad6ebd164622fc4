"""Values of JSON that may be anything: somebody else wrote the file."""

from __future__ import annotations

import json
import math
import re
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


NO_JSON = object()
"""In place of what is no JSON."""
# Terraform's own plans stay far below; what is deeper would end in Python's own limit.
DEEPEST = 100
_LONGEST_NAME = 60
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class KeyTwice(Exception):
    """A key appears twice in one object: which value is meant, each reader decides for itself."""


def parsed(content: bytes) -> Any:
    """The JSON, or a mark of our own where it is none; raises KeyTwice.

    Neither `NaN`, which Python's parser takes, nor a number that no float holds is JSON here.
    """
    try:
        return json.loads(
            content, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once
        )
    except (ValueError, RecursionError):
        return NO_JSON


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise KeyTwice(f"`{name[:_LONGEST_NAME]}` appears twice in one object")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def is_deep(content: bytes) -> bool:
    """True if brackets are nested more than `DEEPEST` levels deep.

    Each round takes the innermost pairs away. Brackets in texts may hide some pairs, so that
    many are left over: then the texts go first.
    """
    rest = _unpaired(content.translate(None, _OTHERS))
    if len(rest) <= DEEPEST:
        return False
    rest = _unpaired(_TEXT.sub(b"", content).translate(None, _OTHERS))
    return len(rest) > DEEPEST


def _unpaired(brackets: bytes) -> bytes:
    """The brackets that are left when those of the allowed levels are taken away."""
    for _ in range(DEEPEST):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return brackets
