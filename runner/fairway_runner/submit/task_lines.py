"""The lines of a run's tasks until they are written, kept small: there may be 100,000 of some
kilobytes, and they resemble each other."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1 << 18  # bytes that are compressed together, and at hand at once
_LEVEL = 1  # lines that differ in a number shrink nearly as much as with 9, in a part of the time


class TaskLines:
    """Lines in their order, whose bytes may be read again and again."""

    def __init__(self) -> None:
        self.first = ""
        self._count = 0
        self._pieces: list[bytes] = []
        self._rest = bytearray()

    def __len__(self) -> int:
        return self._count

    def append(self, line: str) -> None:
        """Adds the next one, with its end."""
        self.first = self.first or line
        self._count += 1
        self._rest += line.encode()
        if len(self._rest) >= _PIECE:
            self._pieces.append(zlib.compress(self._rest, _LEVEL))
            self._rest.clear()

    def pieces(self) -> Iterator[bytes]:
        """The bytes of all of them, in pieces."""
        yield from map(zlib.decompress, self._pieces)
        yield bytes(self._rest)
