"""Which lines of a log are shown, and how a person tells apart who printed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.jobs.ranks import split_label
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

    Where `ranks` are given the label of a line is left out; `coloured` begins each line that has
    one with its rank, in a colour of its own.
    """

    ranks: Collection[int] | None = None
    grep: re.Pattern[str] | None = None
    coloured: bool = False

    @property
    def is_open(self) -> bool:
        """Whether all lines pass as they are."""
        return self.ranks is None and self.grep is None and not self.coloured

    def taken(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Those of the lines that are to be shown, as they are shown; UserError where the pattern
        takes without end."""
        split = ((line, *split_label(line)) for line in lines)
        wanted = (each for each in split if self.ranks is None or each[1] in self.ranks)
        for line, rank, text in matching(wanted, _text, self.grep):
            if rank is not None and self.coloured:
                yield label(f"{rank}", rank) + text
            else:
                yield text if self.ranks is not None else line


def _text(line: tuple[bytes, int | None, bytes]) -> str:
    return line[2].decode("utf-8", "replace")


def label(name: str, number: int) -> bytes:
    """`[name] ` in the colour of a number."""
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
