"""When a log had which size: a note beside it while it grows, by which its lines have times without
a stamp in any of them. Standard library only.

A line of the note is the size in bytes and the time in seconds since 1970, as `8192 1790000000`:
what the log has up to that byte was printed until then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILE = "log.times"
PAUSE = 10.0
"""Seconds between two looks at a log; what is shorter has the times of its task."""

_LONGEST = 4 << 20  # bytes of a note that are read: twenty days of a log that never rests
_LATEST = 253_402_300_800  # seconds since 1970, the year 10000


@dataclass
class LogClock:
    """Notes the sizes of a log, in the file `note`; `due` is when to look next, on the monotonic
    clock, and `size` what was seen last."""

    log: Path
    note: Path
    due: float
    size: int = 0

    @classmethod
    def begin(cls, log: Path, note: Path, now: float) -> LogClock:
        """An attempt begins, `now` being the time on the monotonic clock."""
        return cls(log, note, now + PAUSE, _size(log))

    def look(self, now: float, time: float) -> None:
        """Looks at it, `now` being the time on the monotonic clock and `time` that of day."""
        self.due = now + PAUSE
        self._add(time)

    def end(self, time: float, *, last: bool) -> None:
        """The attempt has ended. Of a short `last` one the times of its task will do."""
        if not last or self.note.exists():
            self._add(time)

    def _add(self, time: float) -> None:
        size = _size(self.log)
        if size != self.size:
            self.size = size
            # A disk that is full costs times, and nothing else.
            with suppress(OSError), self.note.open("a", encoding="ascii") as lines:
                lines.write(f"{size} {int(time)}\n")


def _size(log: Path) -> int:
    with suppress(OSError):
        return log.stat().st_size
    return 0


def parsed(data: bytes) -> list[tuple[int, int]]:
    """Sizes and times of a note, in the order in which both grow: what does not is left out, as
    somebody else may have written it."""
    found: list[tuple[int, int]] = []
    for line in data[:_LONGEST].splitlines():
        size, _, time = line.partition(b" ")
        if not (size.isdigit() and time.isdigit() and len(size) < 19 and len(time) < 13):
            continue
        entry = (int(size), int(time))
        fits = not found or (found[-1][0] <= entry[0] and found[-1][1] <= entry[1])
        if entry[1] < _LATEST and fits:
            found.append(entry)
    return found


def read(note: Path) -> list[tuple[int, int]]:
    """The same of a file; nothing where there is none."""
    with suppress(OSError), note.open("rb") as file:
        return parsed(file.read(_LONGEST))
    return []
