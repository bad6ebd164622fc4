"""Metrics in a task's output: numbers found by patterns, within a limit on processor time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fairway_agent import process_limits
from fairway_agent.quick import dataclass
from fairway_agent.task_logs import split_label
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Patterns = dict[str, re.Pattern[str]]
Found = list[tuple[int, float]]
"""Values, each with the index of its text among all."""
Search = Callable[[str, re.Pattern[str], Sequence[str]], Found]
"""Function that looks for the metric of a name in some texts."""

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16  # of a longer one only the beginning is searched
_BATCH = 1000  # lines that are searched under one limit of processor time
_TAIL = 1 << 18  # bytes at a log's end in which the last values are looked for first
_LINE_END = re.compile(rb"[\r\n]")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")


def find(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """The values of a metric in texts; Fault where its pattern takes too long (main thread)."""
    try:
        with process_limits.cpu_limit():
            return values_of(pattern, texts)
    except process_limits.OverLimit:
        raise Fault("slow-metric", *too_slow(name, pattern), exit_code=2) from None


def too_slow(name: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """Returns the message for a pattern that takes forever, and a hint."""
    message = (
        f"the pattern of the metric `{name}` was stopped after "
        f"{process_limits.CPU_LIMIT:g} s of processor time: {pattern.pattern}"
    )
    return message, "avoid nested repetition: write (a+) for ((?:a+)+)"


def values_of(pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """The values that a pattern finds; what is not a finite number is left out."""
    return [
        (index, value)
        for index, text in enumerate(texts)
        if text
        for match in pattern.finditer(text)
        if (value := _number(match)) is not None
    ]


def _number(match: re.Match[str]) -> float | None:
    shown = match[1]
    if shown is None:  # the group stands in a branch that did not match
        return None
    # `([0-9.]+)` finds the 1 of 1e-3, and the full stop of a sentence after a number.
    if exponent := _EXPONENT.match(match.string, match.end(1)):
        shown += exponent[0]
    try:
        value = float(shown.rstrip(".,;:"))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def values_in(
    lines: Sequence[bytes], patterns: Patterns, search: Search = find
) -> list[tuple[str, float]]:
    """The values in some lines, line by line, in the order of the patterns and then of the text.

    >>> patterns = {"loss": re.compile("loss=([0-9.]+)")}
    >>> values_in([b"loss=1e-3, loss=0.5."], patterns)
    [('loss', 0.001), ('loss', 0.5)]
    """
    texts = [
        split_label(line)[1][:_LONGEST_LINE].decode("utf-8", "replace") if line else ""
        for line in lines
    ]
    found = [
        (index, name, value)
        for name, pattern in patterns.items()
        for index, value in search(name, pattern, texts)
    ]
    found.sort(key=lambda each: each[0])
    return [(name, value) for _, name, value in found]


@dataclass
class MetricLog:
    """A task's log, read once from its beginning to its end while it grows. `offset` is the byte up
    to which it was read: the beginning of a line. Nothing from the byte `until` on is read, if one
    is given, and no line that goes beyond it."""

    path: Path
    patterns: Patterns
    offset: int = 0
    until: int | None = None
    search: Search = find

    def read(self, *, ended: bool = True) -> Iterator[tuple[str, float]]:
        """The values that were printed since the last call, by the name of their metric.

        `ended` says that nothing more is coming, so that a last line without its end is
        read too. A log that does not exist yet has none. What `search` raises, where a pattern
        takes without end.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            while chunk := file.read(self._room()):
                whole = _whole_lines(chunk, ended=ended)
                if not whole:
                    return
                file.seek(self.offset + whole)
                lines = _LINE_END.split(chunk[:whole])
                for first in range(0, len(lines), _BATCH):
                    batch = lines[first : first + _BATCH]
                    yield from values_in(batch, self.patterns, self.search)
                self.offset += whole

    def _room(self) -> int:
        return _CHUNK if self.until is None else max(0, min(_CHUNK, self.until - self.offset))


def _whole_lines(chunk: bytes, *, ended: bool) -> int:
    """Number of bytes of the chunk that are lines with their ends, or the start of a huge one."""
    end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
    if end:
        return end
    return len(chunk) if ended or len(chunk) == _CHUNK else 0


def next_line(path: Path, start: int) -> int:
    """Offset of the first line that begins at this byte or behind it."""
    if start == 0:
        return 0
    with path.open("rb") as file:
        file.seek(start - 1)  # where the byte before ends a line, one begins right here
        return start - 1 + len(file.readline(_CHUNK))


def tail_values(path: Path, patterns: Patterns, search: Search = find) -> dict[str, float] | None:
    """The last value of each metric that a log has, by its end alone, so that a long one costs no
    more than a short one; None where one of them is not there, and may be before it."""
    try:
        start = max(0, path.stat().st_size - _TAIL)
    except FileNotFoundError:
        return {}
    found = dict(MetricLog(path, patterns, next_line(path, start), search=search).read())
    if start and len(found) < len(patterns):
        return None
    return {name: found[name] for name in patterns if name in found}


def last_values(path: Path, patterns: Patterns) -> dict[str, float]:
    """The last value of each metric that a log has; Fault where a pattern takes too long."""
    found = tail_values(path, patterns)
    return dict(MetricLog(path, patterns).read()) if found is None else found


def best_of(values: Sequence[tuple[float, int]], *, lower: bool) -> tuple[float, int]:
    """The best of some values, each with the number of its task; of equal ones the first."""
    return (min if lower else max)(values, key=lambda each: each[0])
