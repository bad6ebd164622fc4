"""Metrics in a task's output: numbers found by patterns, within a limit on processor time."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fairway_agent import process_limits
from fairway_agent.quick import dataclass
from fairway_agent.task_logs import split_label
from fairway_boot.files import AgentError

Patterns = dict[str, re.Pattern[str]]
Found = list[tuple[int, float]]
"""Values, each with the index of its text."""
Search = Callable[[str, re.Pattern[str], Sequence[str]], Found]
"""Searches texts for the values of a metric, given its name and pattern."""

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16  # only the beginning of a longer line is searched
_BATCH = 1000  # lines that are searched within one limit of processor time
_TAIL = 1 << 18  # bytes at the end of a log that are searched first
_NAMED = 5  # diverged tasks to list; beyond that, only a number
_LINE_END = re.compile(rb"[\r\n]")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_NO_NUMBER = r"(?i:(?<!\w)[+-]?(?:nan|inf(?:inity)?)\b)"
# Elements of a pattern: an escaped character, a character set, a comment, the start of a capturing
# or other group, and the end of a group.
_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)|(?P<found>\((?!\?)|\(\?P<)|(?P<other>\()|(?P<end>\))",
    re.DOTALL,
)


def find(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """Returns the values of a metric in texts. Raises AgentError if its pattern takes too long."""
    try:
        return values_of(pattern, texts)
    except process_limits.OverLimit:
        raise AgentError("slow-metric", *too_slow(name, pattern), exit_code=2) from None


def too_slow(name: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """Returns the message and the hint for a pattern that takes too long."""
    message = (
        f"the pattern of the metric `{name}` was stopped after "
        f"{process_limits.CPU_LIMIT:g} s of processor time: "
        f"{pattern.pattern.replace('|' + _NO_NUMBER, '')}"
    )
    return message, "avoid nested repetition: write (a+) for ((?:a+)+)"


def values_of(pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """Returns the values that a pattern finds: numbers, `nan` and infinities. Raises OverLimit if
    it takes too long, which only the main thread can notice."""
    with process_limits.cpu_limit():
        return [
            (index, value)
            for index, text in enumerate(texts)
            if text
            for match in pattern.finditer(text)
            if (value := _number(match)) is not None
        ]


def _number(match: re.Match[str]) -> float | None:
    shown = match[1]
    if shown is None:  # the group is in a branch that did not match
        return None
    # `([0-9.]+)` matches the 1 of 1e-3, and the full stop after a number.
    if exponent := _EXPONENT.match(match.string, match.end(1)):
        shown += exponent[0]
    try:
        return float(shown.rstrip(".,;:"))
    except ValueError:
        return None


def values_in(
    lines: Sequence[bytes], patterns: Patterns, search: Search = find, *, finite: bool = True
) -> list[tuple[str, float]]:
    """Returns the values in some lines, line by line, in the order of the patterns and then of the
    text; `finite` leaves out `nan` and infinities.

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
        if not finite or math.isfinite(value)
    ]
    found.sort(key=lambda each: each[0])
    return [(name, value) for _, name, value in found]


@dataclass
class MetricLog:
    """A task's log, read once from start to end while it grows. `offset` is the start of the first
    unread line. Nothing from the byte `until` on is read, if that is set, nor a line that crosses
    it. `finite` leaves out `nan` and infinities."""

    path: Path
    patterns: Patterns
    offset: int = 0
    until: int | None = None
    search: Search = find
    finite: bool = True

    def read(self, *, ended: bool = True) -> Iterator[tuple[str, float]]:
        """Yields the values printed since the last call, by the name of their metric; none of a log
        that does not exist yet. `ended` says that the log is complete, so that an unterminated last
        line is read too. Raises what `search` raises if a pattern takes too long."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        until = sys.maxsize if self.until is None else self.until
        with file:
            file.seek(self.offset)
            while chunk := file.read(max(0, min(_CHUNK, until - self.offset))):
                cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
                if not cut and (ended or len(chunk) == _CHUNK):
                    cut = len(chunk)  # it is the last line, or the start of a huge one
                if not cut:
                    return
                file.seek(self.offset + cut)
                lines = _LINE_END.split(chunk[:cut])
                for first in range(0, len(lines), _BATCH):
                    batch = lines[first : first + _BATCH]
                    yield from values_in(batch, self.patterns, self.search, finite=self.finite)
                self.offset += cut


def next_line(path: Path, start: int) -> int:
    """Returns the offset of the first line that begins at or after this byte."""
    if start == 0:
        return 0
    with path.open("rb") as file:
        file.seek(start - 1)  # if the byte before ends a line, one starts right here
        return start - 1 + len(file.readline(_CHUNK))


def tail_values(path: Path, patterns: Patterns, search: Search) -> dict[str, float] | None:
    """Returns the last value of each metric, which may be `nan` or infinite, from the end of a log
    alone, so that a long log costs no more than a short one; None if a metric is missing there and
    may have a value further up."""
    try:
        start = max(0, path.stat().st_size - _TAIL)
    except FileNotFoundError:
        return {}
    first = next_line(path, start)
    found = dict(MetricLog(path, patterns, first, search=search, finite=False).read())
    if start and len(found) < len(patterns):
        return None
    return {name: found[name] for name in patterns if name in found}


def final_value(path: Path, name: str, pattern: re.Pattern[str]) -> float | None:
    """Returns the last value of a metric in a log, `nan` and infinities included, or None. These
    are found even if the pattern matches only digits: a program that has diverged prints
    `loss=nan`, which `loss=([0-9.]+)` does not match."""
    patterns = {name: with_no_number(pattern)}
    found = tail_values(path, patterns, find)
    if found is None:
        found = dict(MetricLog(path, patterns, finite=False).read())
    return found.get(name)


def with_no_number(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Returns the pattern with a group that matches `nan` and infinities too.

    >>> with_no_number(re.compile("loss[(](?:=|: )([0-9.]+)")).findall("loss(=nan loss(: 2")
    ['nan', '2']
    """
    opened: list[bool] = []
    for part in _PARTS.finditer(pattern.pattern):
        if part["end"] is None:
            opened += [part["found"] is not None] if part["found"] or part["other"] else []
        elif opened and opened.pop():
            text, at = pattern.pattern, part.start()
            with suppress(re.error):  # a comment in a verbose pattern
                wider = re.compile(f"{text[:at]}|{_NO_NUMBER}{text[at:]}")
                return wider if wider.groups == 1 else pattern
            break
    return pattern


def best_of(
    values: Sequence[tuple[float, int]], *, lower: bool
) -> tuple[tuple[float, int] | None, list[int]]:
    """Returns the best of some values, each with its task's number (the first among equals), and
    the tasks that have diverged: those whose last value is not finite, and cannot be the best."""
    finite = [each for each in values if math.isfinite(each[0])]
    best = (min if lower else max)(finite, key=lambda each: each[0], default=None)
    return best, [number for value, number in values if not math.isfinite(value)]


def diverged_words(metric: str, tasks: Sequence[int]) -> str:
    """Formats which tasks have diverged; "" for none.

    >>> diverged_words("loss", [2]), diverged_words("loss", range(8))[:41]
    ('the last `loss` of task 2 is not finite', 'the last `loss` of tasks 0, 1, 2, 3, 4 an')
    """
    if not tasks:
        return ""
    named = ", ".join(map(str, tasks[:_NAMED]))
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"the last `{metric}` of task{'s' * (len(tasks) > 1)} {named}{more} is not finite"
