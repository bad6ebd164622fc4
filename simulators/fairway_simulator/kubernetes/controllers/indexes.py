"""Sets of indexes as a Job's status writes them: `0,3-5,7`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def spelled(indexes: Iterable[int]) -> str:
    """The text for a set."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    # Two that are neighbours are no range yet.
    texts = {0: "{0}", 1: "{0},{1}"}
    return ",".join(texts.get(b - a, "{0}-{1}").format(a, b) for a, b in parts)


def parsed(text: str) -> set[int]:
    """The set that a text means."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
