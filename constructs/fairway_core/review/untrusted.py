"""JSON that somebody else wrote: numbers that are none, keys that appear twice, and depth without
end are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

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
    """Whether brackets stand inside each other more than `DEEPEST` levels deep.

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
