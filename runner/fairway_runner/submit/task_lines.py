"""The lines of a run's tasks until they are written, kept small: there may be 100,000 of some
kilobytes, and they resemble each other."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 2 << 30  # bytes of all lines: they lie on a disk, here and on the target
_PIECE = 1 << 18  # bytes that are compressed together, and at hand at once
_LEVEL = 1  # lines that differ in a number shrink nearly as much as with 9, in a part of the time


class TaskLines:
    """Lines in their order, whose bytes may be read again and again."""

    def __init__(self) -> None:
        self.first = ""
        self._count = 0
        self._size = 0
        self._pieces: list[bytes] = []
        self._rest = bytearray()

    def __len__(self) -> int:
        return self._count

    def append(self, line: str) -> None:
        """Adds the next one, with its end; UserError where they come to too much."""
        self.first = self.first or line
        encoded = line.encode()
        self._count += 1
        self._size += len(encoded)
        if self._size > _MOST:
            message = f"the scripts of the tasks come to more than {_MOST >> 20:,} MiB"
            hint = "shorten what each task has, or submit fewer at once"
            raise UserError.of("heavy-job", message, hint)
        self._rest += encoded
        if len(self._rest) >= _PIECE:
            self._pieces.append(zlib.compress(self._rest, _LEVEL))
            self._rest.clear()

    def pieces(self) -> Iterator[bytes]:
        """The bytes of all of them, in pieces."""
        yield from map(zlib.decompress, self._pieces)
        yield bytes(self._rest)
