"""JSON values of unknown type, from files that another program wrote."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_MOST = 10**9
# Larger quantities would give meaningless sums.
_TOO_LARGE = 10**12


def value_at(value: Any, steps: Sequence[str]) -> Any:
    """Returns the value at a path, through first blocks; True if a mask covers all of it."""
    for step in steps:
        value = first_block(value).get(step) if value is not True else True
    return value


def first_block(value: Any) -> Mapping[str, Any]:
    """Returns a block: the value itself, or the first of a list; empty if it is neither."""
    one = value[0] if isinstance(value, list) and value else value
    return one if isinstance(one, dict) else {}


def blocks(value: Any) -> list[Mapping[str, Any]]:
    """Returns all blocks of a list; Terraform's JSON may have a single block as an object."""
    return [each for each in as_list(value) or [value] if isinstance(each, dict)]


def number(value: Any) -> float:
    """Returns a number or boolean, limited to what can be printed briefly; 0 for anything else."""
    return max(-_MOST, min(value, _MOST)) if isinstance(value, int | float) else 0


def quantity(value: Any) -> int | None:
    """Returns a number as an integer; None for anything else, or if it is larger than any real
    quantity."""
    return int(value) if isinstance(value, int | float) and abs(value) < _TOO_LARGE else None


def as_list(value: Any) -> list[Any]:
    """Returns a list unchanged, or an empty one for anything else: hidden or unknown."""
    return value if isinstance(value, list) else []


def leaves(value: Any) -> Iterator[Any]:
    """Yields each value that is neither object nor list, at any depth."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def parse_embedded(text: str) -> Any:
    """Parses text that is a JSON object or list, since Azure rewrites its spaces.

    >>> parse_embedded('{"a": 1}') == parse_embedded('{"a":1}')
    True
    """
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


NO_JSON = object()
"""The result for invalid JSON."""
# Terraform's plans stay far below; deeper values would exceed Python's recursion limit.
DEEPEST = 100
_LONGEST_NAME = 60
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class DuplicateKey(Exception):
    """A key appears twice in one object; readers disagree on which value counts."""


def parse_json(content: bytes) -> Any:
    """Parses JSON; returns NO_JSON if it is invalid, as are `NaN`, which Python's parser accepts,
    and numbers beyond a float's range. Raises DuplicateKey."""
    try:
        return json.loads(
            content, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_once
        )
    except (ValueError, RecursionError):
        return NO_JSON


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise DuplicateKey(f"`{name[:_LONGEST_NAME]}` appears twice in one object")
    return found


def _finite(text: str) -> float:
    """Parses a number, or one of the constants, of which none is a number in JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number in JSON")
    return number


def is_deep(content: bytes) -> bool:
    """Returns True if brackets are nested more than `DEEPEST` levels deep. Each round removes the
    innermost pairs. Brackets in strings may keep some pairs from matching, so that many are left:
    then the strings are removed first."""
    rest = _unpaired(content.translate(None, _OTHERS))
    if len(rest) <= DEEPEST:
        return False
    rest = _unpaired(_TEXT.sub(b"", content).translate(None, _OTHERS))
    return len(rest) > DEEPEST


def _unpaired(brackets: bytes) -> bytes:
    """Returns the brackets that are left after removing pairs of the allowed levels."""
    for _ in range(DEEPEST):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return brackets
