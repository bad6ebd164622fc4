"""Which lines of a log are shown, and how a person tells apart who printed them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner import cpu_limit
from fairway_runner.jobs.ranks import split_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

_BATCH = 1000  # lines that are searched under one limit of processor time
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
        rest = iter(lines)
        while batch := list(islice(rest, _BATCH)):
            split = [(line, *split_label(line)) for line in batch]
            for line, rank, text in self._found(split):
                if rank is not None and self.coloured:
                    yield label(f"{rank}", rank) + text
                else:
                    yield text if self.ranks is not None else line

    def _found(
        self, lines: list[tuple[bytes, int | None, bytes]]
    ) -> list[tuple[bytes, int | None, bytes]]:
        wanted = [each for each in lines if self.ranks is None or each[1] in self.ranks]
        if self.grep is None:
            return wanted
        try:
            with cpu_limit.cpu_limit():
                return [
                    each for each in wanted if self.grep.search(each[2].decode("utf-8", "replace"))
                ]
        except cpu_limit.OverLimit:
            message = (
                f"--grep was stopped after {cpu_limit.CPU_LIMIT:g} s of processor time: "
                f"{self.grep.pattern}"
            )
            hint = "do not repeat what is a repetition itself: write (a+) for ((?:a+)+)"
            raise UserError.of("slow-pattern", message, hint) from None


def label(name: str, number: int) -> bytes:
    """`[name] ` in the colour of a number."""
    return b"\x1b[%sm[%s]\x1b[0m " % (_COLOURS[number % len(_COLOURS)], name.encode())


def pattern(text: str | None) -> re.Pattern[str] | None:
    """A regular expression of the command line; UserError where it is none."""
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"--grep: `{text[:60]}` is not a regular expression: {error}"
        raise UserError.of("bad-value", message, r"write \[ and \( for [ and (") from None


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
