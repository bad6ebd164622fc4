"""A container's log, from its beginning or its last lines, and on while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PIECE = 1 << 16
_PAUSE = 0.1  # seconds between two looks at a log that is followed


def read(
    file: Path,
    *,
    tail: int | None,
    most: int | None,
    follow: bool,
    is_over: Callable[[], bool],
    stopped: threading.Event,
) -> Iterator[bytes]:
    """The log in pieces; one that is followed ends when its container has."""
    if not file.exists():
        return
    with file.open("rb") as stream:
        if tail is not None:
            stream.seek(_start(file, tail))
        while True:
            over = is_over()  # first: what is written after it is read below
            while piece := stream.read(_PIECE if most is None else min(_PIECE, most)):
                if most is not None:
                    most -= len(piece)
                yield piece
            if not follow or over or most == 0 or stopped.wait(_PAUSE):
                return


def _start(file: Path, lines: int) -> int:
    """Where the last lines begin."""
    if lines <= 0:
        return file.stat().st_size
    with file.open("rb") as stream:
        place = stream.seek(0, 2)
        data = b""
        while place > 0 and data.count(b"\n") <= lines:
            step = min(_PIECE, place)
            place -= step
            stream.seek(place)
            data = stream.read(step) + data
    kept = data.splitlines(keepends=True)[-lines:]
    return place + len(data) - sum(map(len, kept))
