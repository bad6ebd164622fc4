"""Metrics in a task's output: numbers found by patterns, within a limit on processor time."""

from __future__ import annotations

import math
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from fairway_agent.task_logs import split_label
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from sys import UnraisableHookArgs
    from types import FrameType


CPU_LIMIT = 10.0  # seconds of this process's own time, so that a busy machine changes nothing


class OverLimit(Exception):
    """It took more processor time than it may."""


_is_prepared = False
"""True once the signal has a handler; only the main thread reads and sets it."""


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Raises OverLimit from within when CPU_LIMIT is over, and once more each time that it is
    over again where something swallows that. Signals reach the main thread alone: in another
    thread there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with nullcontext() if _is_prepared else prepared():
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT, CPU_LIMIT)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def prepared() -> Iterator[None]:
    """Within it limits cost little: a sweep renders templates for each of its tasks."""
    global _is_prepared
    if _is_prepared or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, report = signal.signal(signal.SIGVTALRM, _end), sys.unraisablehook

    def report_others(error: UnraisableHookArgs) -> None:
        # Python prints what a finalizer raises, and goes on: the next signal ends it.
        if not isinstance(error.exc_value, OverLimit):
            report(error)

    sys.unraisablehook, _is_prepared = report_others, True
    try:
        yield
    finally:
        _is_prepared = False
        sys.unraisablehook = report
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise OverLimit


Patterns = dict[str, re.Pattern[str]]
Found = list[tuple[int, float]]
"""Values, each with the index of its text among all."""
Search = Callable[[str, re.Pattern[str], Sequence[str]], Found]
"""What looks for the metric of that name in some texts."""

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16  # of a longer one only the beginning is searched
_BATCH = 1000  # lines that are searched under one limit of processor time
_TAIL = 1 << 18  # bytes at a log's end in which the last values are looked for first
_LINE_END = re.compile(rb"[\r\n]")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")


def find(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """The values of a metric in some texts; Fault where its pattern takes too long, in the main
    thread."""
    try:
        with cpu_limit():
            return values_of(pattern, texts)
    except OverLimit:
        raise Fault("slow-metric", *too_slow(name, pattern), exit_code=2) from None


def too_slow(name: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """Returns the message for a pattern that takes forever, and a hint."""
    message = (
        f"the pattern of the metric `{name}` was stopped after "
        f"{CPU_LIMIT:g} s of processor time: {pattern.pattern}"
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
    """A task's log, read once from its beginning to its end while it grows.

    `offset` is the byte up to which it was read: the beginning of a line. Nothing from the byte
    `until` on is read, if one is given, and no line that goes beyond it.
    """

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
        """How many bytes are read next."""
        return _CHUNK if self.until is None else max(0, min(_CHUNK, self.until - self.offset))


def _whole_lines(chunk: bytes, *, ended: bool) -> int:
    """How many bytes of the chunk are lines with their ends, or the start of a huge one."""
    end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
    if end:
        return end
    return len(chunk) if ended or len(chunk) == _CHUNK else 0


def next_line(path: Path, start: int) -> int:
    """Where the first line begins that does so at this byte or behind it."""
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
