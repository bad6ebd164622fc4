"""Bytes between two connections, both ways and in one thread: TLS connections allow no more."""

from __future__ import annotations

import select
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_PIECE = 1 << 16
_MOST = 1 << 20
"""Bytes that are kept for a side that does not take them."""
_PATIENCE = 60.0


class _Side:
    """One of the two, and what is still to be sent to it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.pending = b""


def both_ways(left: socket.socket, right: socket.socket) -> None:
    """Passes on what each side says, until one has said all or is gone."""
    sides = _Side(left), _Side(right)
    over = False
    with right:
        while not over or any(side.pending for side in sides):
            moved = False
            for side, other in (sides, sides[::-1]):
                if not over and len(other.pending) < _MOST:
                    piece = _read(side.connection)
                    over = piece == b""
                    moved = moved or bool(piece)
                    other.pending += piece or b""
                sent = _write(side.connection, side.pending) if side.pending else 0
                if sent < 0:
                    return
                moved = moved or sent > 0
                side.pending = side.pending[sent:]
            if not moved:
                _wait(*sides, over)


def _wait(left: _Side, right: _Side, over: bool) -> None:
    """Until something can be read, unless all is said, or written."""
    ways = () if over else ((left, right), (right, left))
    readers = [source.connection for source, other in ways if len(other.pending) < _MOST]
    writers = [side.connection for side in (left, right) if side.pending]
    with suppress(OSError, ValueError):
        select.select(readers, writers, [], _PATIENCE)


def _read(side: socket.socket) -> bytes | None:
    """What there is to read: None for nothing yet, b"" for the end."""
    try:
        return side.recv(_PIECE)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except OSError:
        return b""


def _write(side: socket.socket, piece: bytes) -> int:
    """How many bytes were taken; -1 where the side is gone."""
    try:
        return side.send(piece[:_PIECE])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0
    except OSError:
        return -1
