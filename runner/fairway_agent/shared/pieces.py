"""Files that grow, sent piece by piece. Standard library only."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MOST = 4 << 20  # bytes in one answer


def piece_of(file: Path, offset: int, budget: list[int]) -> dict[str, Any] | None:
    """What the file has from the offset on, as far as the budget of bytes goes, which it takes
    from; `more` says that there is more. None where there is nothing."""
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
    packed = base64.b64encode(zlib.compress(data, 1)).decode("ascii")
    return {"offset": offset, "data": packed, "more": more}
