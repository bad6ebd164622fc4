"""Files that grow, sent piece by piece. Standard library only."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.json_record import JsonRecord

if TYPE_CHECKING:
    from pathlib import Path

MOST = 4 << 20  # bytes in one answer


@dataclass(frozen=True, slots=True)
class Piece(JsonRecord):
    """What a file has from the byte `offset` on, packed as text; `more` says that there is more."""

    CALLED = "a piece"

    offset: int
    data: str
    more: bool = False


def piece_of(file: Path, offset: int, budget: list[int]) -> Piece | None:
    """What the file has from the offset on, as far as the budget of bytes goes, which it takes
    from. None where there is nothing."""
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
