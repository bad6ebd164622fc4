"""Metrics: numbers that a job's patterns find in what its tasks print.

A pattern is a regular expression with one group, looked for in each line. A log is read
as it grows, a chunk at a time, so that neither its size nor what is in it matters. What a long
log has said so far is kept beside it, so that nobody reads that a second time.
"""

from __future__ import annotations

import json
import math
import re
import threading
import zlib
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from fairway_agent.files import write_json
from fairway_core.findings import UserError
from fairway_runner import cpu_limit
from fairway_runner.jobs.ranks import split_label
from fairway_runner.runs.pattern_process import PatternProcess, search

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Patterns = dict[str, re.Pattern[str]]

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16  # of a longer one only the beginning is searched
_BATCH = 1000  # lines that are searched under one limit of processor time
_TAIL = 1 << 18  # bytes at a log's end in which the last values are looked for first
_KEPT = ".metrics.json"
_WORTH = 1 << 20  # this many bytes of a log take longer to read than to keep what they say
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
        (index, name, value)
        for name, pattern in patterns.items()
        for index, value in _found(name, pattern, texts)
    ]
    found.sort(key=lambda each: each[0])
    return [(name, value) for _, name, value in found]


def _found(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The values of one metric, each with its line's index among the texts."""
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

    Looked for at its end first, so that a long log costs no more than a short one where each
    metric is printed again and again.
    """
    try:
        start = max(0, path.stat().st_size - _TAIL)
    except FileNotFoundError:
        return {}
    if start:
        values = dict(MetricLog(path, patterns, next_line(path, start)).read())
        if len(values) == len(patterns):
            return {name: values[name] for name in patterns}
    return {name: each.last for name, each in all_values(path, patterns).items()}


@dataclass
class Values:
    """What a log has said of a metric."""

    last: float
    lowest: float
    highest: float


def all_values(path: Path, patterns: Patterns) -> dict[str, Values]:
    """The last, lowest and highest value of each metric that a log has; of a long one only what
    has come since it was read last is read."""
    found, offset = _read_kept(path, patterns)
    log = MetricLog(path, patterns, offset)
    _take(log.read(ended=False), found)
    if log.offset - offset >= _WORTH:
        _keep(path, patterns, found, log.offset)
    _take(log.read(), found)  # the last line may go on
    return {name: found[name] for name in patterns if name in found}


def _take(values: Iterable[tuple[str, float]], found: dict[str, Values]) -> None:
    for name, value in values:
        known = found.setdefault(name, Values(value, value, value))
        known.last = value
        known.lowest = min(value, known.lowest)
        known.highest = max(value, known.highest)


def _keep(path: Path, patterns: Patterns, found: Mapping[str, Values], offset: int) -> None:
    facts = {
        "patterns": _texts(patterns),
        "offset": offset,
        "before": _before(path, offset),
        "values": {name: astuple(each) for name, each in found.items()},
    }
    with suppress(OSError):  # who cannot keep it reads it again
        write_json(path.with_name(_KEPT), facts)


def _read_kept(path: Path, patterns: Patterns) -> tuple[dict[str, Values], int]:
    """What was kept of these metrics and up to which byte; nothing where it is not of this log."""
    try:
        facts = json.loads(path.with_name(_KEPT).read_bytes())
        offset = int(facts["offset"])
        values = {name: Values(*map(float, each)) for name, each in facts["values"].items()}
        known, before = facts["patterns"], facts["before"]
        is_fit = known.items() >= _texts(patterns).items() and before == _before(path, offset)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {}, 0
    if not is_fit or not all(math.isfinite(n) for each in values.values() for n in astuple(each)):
        return {}, 0
    return values, offset


def _texts(patterns: Patterns) -> dict[str, str]:
    return {name: pattern.pattern for name, pattern in patterns.items()}


def _before(path: Path, offset: int) -> list[int]:
    """What tells whether a log is still the one that was read up to there."""
    with path.open("rb") as file:
        file.seek(max(0, offset - _LONGEST_LINE))
        text = file.read(min(offset, _LONGEST_LINE))
    return [len(text), zlib.crc32(text)]


def next_line(path: Path, start: int) -> int:
    """Where the first line begins that does so at this byte or behind it."""
    if start == 0:
        return 0
    with path.open("rb") as file:
        file.seek(start - 1)  # where the byte before ends a line, one begins right here
        return start - 1 + len(file.readline(_CHUNK))
