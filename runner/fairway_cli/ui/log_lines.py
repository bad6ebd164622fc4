"""Which lines of a log are shown, and how a person tells apart who printed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.log_marks import split_label
from fairway_runner.runs.log_lines import matching

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

_BLOCK = 1 << 16
# SGR parameters of ECMA-48: colours that can be read on black and on white.
_COLOURS = (b"36", b"33", b"35", b"32", b"34", b"31", b"96", b"93", b"95", b"92", b"94", b"91")


@dataclass(frozen=True)
class LineFilter:
    """Takes the lines of some ranks, or all, that hold a pattern, or all.

    Where a launcher has labelled a line with its rank, `named` begins it with that alone, and
    `coloured` does so in a colour of its own; where `ranks` are given it is left out, unless it
    is coloured.
    """

    ranks: Collection[int] | None = None
    grep: re.Pattern[str] | None = None
    coloured: bool = False
    named: bool = False

    @property
    def is_open(self) -> bool:
        """Whether all lines pass as they are."""
        shown_as_they_are = not self.coloured and not self.named
        return self.ranks is None and self.grep is None and shown_as_they_are

    def taken(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Line]:
        """Those of the lines, each with its attempt, that are to be shown; UserError where the
        pattern takes without end."""
        split = (Line(attempt, line, *split_label(line)) for attempt, line in lines)
        wanted = (each for each in split if self.ranks is None or each.rank in self.ranks)
        yield from matching(wanted, lambda line: line.text, self.grep)

    def shown(self, line: Line) -> tuple[int | None, bytes]:
        """The rank that is to be named before a line, and what is shown of it."""
        if line.rank is not None and (self.coloured or (self.named and self.ranks is None)):
            return line.rank, line.rest
        return None, line.rest if self.ranks is not None else line.whole


@dataclass(frozen=True)
class Line:
    """A line of a log as it stands: its attempt, from 1; the rank that it is labelled with, and the
    `rest` without that label."""

    attempt: int
    whole: bytes
    rank: int | None
    rest: bytes

    @property
    def text(self) -> str:
        """What was printed."""
        return self.rest.removesuffix(b"\r").decode("utf-8", "replace")


def label(name: str, number: int | None = None) -> bytes:
    """`[name] `, in the colour of a number if one is given."""
    if number is None:
        return f"[{name}] ".encode()
    return b"\x1b[%sm[%s]\x1b[0m " % (_COLOURS[number % len(_COLOURS)], name.encode())


def tail_offset(path: Path, lines: int) -> int:
    """Where in a log its last lines begin."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        position = file.seek(0, 2)
        # The end of the last line is none before it.
        left = lines + 1 if _ends_a_line(path, position) else lines
        while position > 0:
            start = max(0, position - _BLOCK)
            file.seek(start)
            block = file.read(position - start)
            while (end := block.rfind(b"\n")) >= 0:
                left -= 1
                if left <= 0:
                    return start + end + 1
                block = block[:end]
            position = start
    return 0


def _ends_a_line(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, size - 1))
        return file.read(1) == b"\n"
