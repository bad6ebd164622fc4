"""Files that grow, sent piece by piece."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.records import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST = 4 << 20  # bytes in one answer


@dataclass(frozen=True, slots=True)
class Piece(JsonRecord):
    """Content of a file from the byte `offset` on, packed as text, and whether there is `more`."""

    CALLED = "a piece"

    offset: int
    data: str
    more: bool = False


def pieces_of(
    files: Iterable[tuple[str, Path]], known: Mapping[str, int], budget: list[int]
) -> tuple[dict[str, Piece], bool]:
    """Returns the piece of each file beyond the bytes `known` of it, by name, as far as the budget
    of bytes goes; also returns True if there is more."""
    more = False
    found: dict[str, Piece] = {}
    for name, file in files:
        if budget[0] <= 0:
            return found, True
        if piece := piece_of(file, known.get(name, 0), budget):
            found[name] = piece
            more = more or piece.more
    return found, more


def piece_of(file: Path, offset: int, budget: list[int]) -> Piece | None:
    """A file from the offset on, within the budget, which it reduces; None if nothing is there."""
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            data = opened.read(budget[0])
            more = bool(opened.read(1))
    except FileNotFoundError:
        return None
    if not data:
        return None
    budget[0] -= len(data)
    return Piece(offset, base64.b64encode(zlib.compress(data, 1)).decode("ascii"), more)
