"""Metrics: numbers that a job's patterns find in what its tasks print.

A pattern is a regular expression with one group, looked for in each line. A log is read
as it grows, a chunk at a time, so that neither its size nor what is in it matters.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner import cpu_limit
from fairway_runner.jobs.ranks import split_label
from fairway_runner.runs.pattern_process import PatternProcess, search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Patterns = dict[str, re.Pattern[str]]

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16  # of a longer one only the beginning is searched
_BATCH = 1000  # lines that are searched under one limit of processor time
_TAIL = 1 << 18  # bytes at a log's end in which the last values are looked for first
_LINE_END = re.compile(rb"[\r\n]")
_ELSEWHERE = PatternProcess()


def compile_patterns(metrics: Mapping[str, str]) -> Patterns:
    """A job's `metrics:`, ready to be looked for."""
    return {name: re.compile(pattern) for name, pattern in metrics.items()}


@dataclass
class MetricLog:
    """A task's log, read once from its beginning to its end while it grows.

    `offset` is the byte up to which it was read: the beginning of a line. Nothing from the byte
    `until` on is read, if one is given, and no line that goes beyond it.
    """

    path: Path
    patterns: Patterns
    offset: int = 0
    until: int | None = None

    def read(self, *, ended: bool = True) -> Iterator[tuple[str, float]]:
        """The values that were printed since the last call, by the name of their metric.

        `ended` says that nothing more is coming, so that a last line without its end is
        read too. A log that does not exist yet has none. UserError where a pattern takes
        without end.
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
                    yield from values_in(lines[first : first + _BATCH], self.patterns)
                self.offset += whole

    def _room(self) -> int:
        """How many bytes are read next."""
        return _CHUNK if self.until is None else max(0, min(_CHUNK, self.until - self.offset))


def _whole_lines(chunk: bytes, *, ended: bool) -> int:
    """How many bytes of the chunk are lines with their ends, or the start of a huge one."""
    end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
    if end:
        return end
    return len(chunk) if ended or len(chunk) == _CHUNK else 0


def values_in(lines: Sequence[bytes], patterns: Patterns) -> list[tuple[str, float]]:
    """The values in some lines, line by line, in the order of the patterns and then of the text.

    What is not a finite number is left out. UserError where a pattern takes too long.

    >>> patterns = compile_patterns({"loss": "loss=([0-9.]+)"})
    >>> values_in([b"loss=1e-3, loss=0.5."], patterns)
    [('loss', 0.001), ('loss', 0.5)]
    """
    texts = [
        split_label(line)[1][:_LONGEST_LINE].decode("utf-8", "replace") if line else ""
        for line in lines
    ]
    found = [
        (place, name, value)
        for name, pattern in patterns.items()
        for place, value in _found(name, pattern, texts)
    ]
    found.sort(key=lambda each: each[0])
    return [(name, value) for _, name, value in found]


def _found(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The values of one metric, each with its line's place among the texts."""
    try:
        # In another thread nothing could stop it, nor would any thread go on meanwhile.
        if threading.current_thread() is not threading.main_thread():
            return _ELSEWHERE.search(pattern, texts)
        with cpu_limit.cpu_limit():
            return search(pattern, texts)
    except cpu_limit.OverLimit:
        message = (
            f"the pattern of the metric `{name}` was stopped after "
            f"{cpu_limit.CPU_LIMIT:g} s of processor time: {pattern.pattern}"
        )
        hint = "do not repeat what is a repetition itself: write (a+) for ((?:a+)+)"
        raise UserError.of("slow-metric", message, hint) from None


def last_values(path: Path, patterns: Patterns) -> dict[str, float]:
    """The last value of each metric that a log has.

    Looked for from the end, so that a long log costs no more than a short one.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return {}
    tail = _TAIL
    while True:
        start = max(0, size - tail)
        values = dict(MetricLog(path, patterns, next_line(path, start)).read())
        if start == 0 or len(values) == len(patterns):
            return {name: values[name] for name in patterns if name in values}
        tail *= 8


def next_line(path: Path, start: int) -> int:
    """Where the first line begins that does so at this byte or behind it."""
    if start == 0:
        return 0
    with path.open("rb") as file:
        file.seek(start)
        return start + len(file.readline(_CHUNK))
