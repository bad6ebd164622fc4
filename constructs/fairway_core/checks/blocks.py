"""Values of a plan that may be anything: somebody else wrote the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST = 10**9


def at(value: Any, steps: Sequence[str]) -> Any:
    """What stands there, of blocks always the first; True where a mask holds for all of it."""
    for step in steps:
        value = first(value).get(step) if value is not True else True
    return value


def first(value: Any) -> Mapping[str, Any]:
    """A block: itself, or the first of a list."""
    one = value[0] if isinstance(value, list) and value else value
    return one if isinstance(one, dict) else {}


def blocks(value: Any) -> list[Mapping[str, Any]]:
    """All blocks of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def number(value: Any) -> float:
    """A number or a switch; 0 for nothing, and no more than can be written shortly."""
    return max(-_MOST, min(value, _MOST)) if isinstance(value, int | float) else 0


def listed(value: Any) -> list[Any]:
    """A list, as it is or in place of what is none: hidden or unknown."""
    return value if isinstance(value, list) else []
