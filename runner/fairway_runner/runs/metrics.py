"""Metrics of a run's tasks, readable in any thread. The values of a long log so far are cached next
to it, so that nobody reads it twice; `fairway_agent.metric_logs` reads a log."""

from __future__ import annotations

import json
import math
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import astuple, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairway_agent import metric_logs, process_limits
from fairway_agent.quick import dataclass
from fairway_agent.records import section_of
from fairway_boot.files import write_json
from fairway_core.findings import UserError
from fairway_runner.runs.records import legible_facts

_KEPT = ".metrics.json"
_WORTH = 1 << 20  # larger logs take longer to read than a cache of their values
_BEFORE = 1 << 16  # last bytes that identify a log
_ALONE = threading.Lock()
_SLOW: dict[str, None] = {}
"""Patterns that ran into the limit: reading a growing log does not wait for them each time, and
neither do other readers on a server meanwhile."""
_MOST_SLOW = 1000


def compile_patterns(metrics: Mapping[str, str]) -> metric_logs.Patterns:
    """Compiles a job's `metrics:`; the patterns match `nan` and infinities too."""
    return {
        name: metric_logs.with_no_number(re.compile(pattern)) for name, pattern in metrics.items()
    }


def search(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> metric_logs.Found:
    """Returns the values of a metric in some texts. Raises UserError if its pattern is too slow."""
    known = pattern.pattern
    # In another thread nothing could stop it, and it would block all other threads.
    in_thread = threading.current_thread() is not threading.main_thread()
    try:
        with _ALONE if in_thread else nullcontext():
            if known in _SLOW:
                raise process_limits.OverLimit
            if not in_thread:
                return metric_logs.values_of(pattern, texts)
            from fairway_runner import worker  # commands have one thread and never need it

            return worker.call(metric_logs.values_of, pattern, texts)
    except process_limits.OverLimit:
        if len(_SLOW) >= _MOST_SLOW:
            _SLOW.pop(next(iter(_SLOW)), None)
        _SLOW[known] = None
        raise UserError.of("slow-metric", *metric_logs.too_slow(name, pattern)) from None


def last_values(path: Path, patterns: metric_logs.Patterns) -> dict[str, float]:
    """Returns the last value of each metric in a log, searched from its end; `nan` or infinite for
    a task that has diverged. Raises UserError for a pattern that takes too long."""
    found = metric_logs.tail_values(path, patterns, search)
    if found is not None:
        return found
    return {name: each.last for name, each in all_values(path, patterns).items()}


@dataclass
class Values:
    """Summary of a metric's values in a log: the last one, which may be `nan` or infinite, and the
    bounds of the others, which are finite if there are any."""

    last: float
    lowest: float
    highest: float


def all_values(path: Path, patterns: metric_logs.Patterns) -> dict[str, Values]:
    """Returns the last, lowest and highest value of each metric in a log; of a long one only the
    part written since the last call is read."""
    found, offset = _read_kept(path, patterns)
    log = metric_logs.MetricLog(path, patterns, offset, search=search, finite=False)
    _take(log.read(ended=False), found)
    if log.offset - offset >= _WORTH:
        facts = {
            "patterns": _texts(patterns),
            "offset": log.offset,
            "before": _before(path, log.offset),
            "values": {name: astuple(each) for name, each in found.items()},
        }
        with suppress(OSError):  # without a cache the log is read again
            write_json(path.with_name(_KEPT), facts)
    _take(log.read(), found)  # the last line may be incomplete
    return {name: found[name] for name in patterns if name in found}


def _take(values: Iterable[tuple[str, float]], found: dict[str, Values]) -> None:
    for name, value in values:
        known = found.setdefault(name, Values(value, math.inf, -math.inf))
        known.last = value
        if math.isfinite(value):
            known.lowest = min(value, known.lowest)
            known.highest = max(value, known.highest)


def _read_kept(path: Path, patterns: metric_logs.Patterns) -> tuple[dict[str, Values], int]:
    """Returns the stored values of these metrics, and up to which byte; empty for another log."""
    try:
        facts = json.loads(path.with_name(_KEPT).read_bytes())
        offset = int(facts["offset"])
        values = {name: Values(*map(float, each)) for name, each in facts["values"].items()}
        known, before = facts["patterns"], facts["before"]
        is_fit = known.items() >= _texts(patterns).items() and before == _before(path, offset)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {}, 0
    return (values, offset) if is_fit else ({}, 0)


def _texts(patterns: metric_logs.Patterns) -> dict[str, str]:
    return {name: pattern.pattern for name, pattern in patterns.items()}


def _before(path: Path, offset: int) -> list[int]:
    """Returns a checksum of the 64 KiB of the log before that byte, which tells it from another."""
    with path.open("rb") as file:
        file.seek(max(0, offset - _BEFORE))
        text = file.read(min(offset, _BEFORE))
    return [len(text), zlib.crc32(text)]


PIECE = 1 << 18
"""Bytes of one piece of a log, if only pieces are read."""

# Common names of steps, for jobs that do not define their own; the most frequent first. Each starts
# with rare letters, because searching for these is ten times as fast.
_USUAL = {
    name: re.compile(rf"{words}[\s=:\[(#]*([0-9]+)")
    for name, words in (
        ("step", "tep(?<=[sS]tep)"),
        ("iteration", "ter(?<=[iI]ter)(?:ation)?"),
        ("epoch", "poch(?<=[eE]poch)"),
    )
}
# Prefix of steps' names among those of metrics, which have no spaces.
_MARK = "step of "


@dataclass
class Series:
    """Values of one metric in order, thinned out evenly if there are more than `most`. `points` are
    (position, value), the position counting every value from 0, and `marks` the steps that had been
    printed by then, by their names. The last value is always `last`, at the position `end`. If
    `is_sampled`, only parts of the log were read, and positions are approximate."""

    most: int = 1000
    points: list[tuple[int, float]] = field(default_factory=list)
    marks: list[Mapping[str, float]] = field(default_factory=list)
    count: int = 0
    last: float = math.nan
    last_marks: Mapping[str, float] = field(default_factory=dict)
    end: int = -1
    is_sampled: bool = False
    _step: int = 1

    def go_to(self, position: int) -> None:
        """Sets the approximate position of the next value, which may not precede the last one's."""
        self.end = max(self.end, position - 1)

    def add(self, value: float, marks: Mapping[str, float] | None = None) -> None:
        """Adds the next value."""
        self.end += 1
        if self.count % self._step == 0:
            self.points.append((self.end, value))
            self.marks.append(marks or {})
            if len(self.points) > self.most:
                self.points, self.marks = self.points[::2], self.marks[::2]
                self._step *= 2
        self.count += 1
        self.last, self.last_marks = value, marks or {}

    def points_over(self, axis: str | None) -> list[tuple[float, float]]:
        """Returns the points over the steps of that name, or over their positions from 1, including
        the last."""
        points, marks = list(self.points), list(self.marks)
        if self.count and points[-1][0] != self.end:
            points.append((self.end, self.last))
            marks.append(self.last_marks)
        if axis is None:
            return [(at + 1.0, value) for at, value in points]
        return [(mark[axis], value) for mark, (_, value) in zip(marks, points, strict=True)]

    def goes_by(self, axis: str) -> bool:
        """Returns True if every value belongs to a step of that name, and the steps increase."""
        if not all(axis in mark for mark in [*self.marks, self.last_marks]):
            return False
        steps = [at for at, _ in self.points_over(axis)]
        return all(a <= b for a, b in pairwise(steps)) and steps[0] < steps[-1]


def axis_of(metric: str, found: Sequence[Series]) -> str | None:
    """Returns the steps over which the values of all tasks can be drawn; None for positions."""
    for axis in (metric, *_USUAL):
        if all(each.goes_by(axis) for each in found):
            return axis
    return None


def series(
    path: Path,
    patterns: metric_logs.Patterns,
    most: int = 1000,
    steps: Mapping[str, re.Pattern[str] | None] | None = None,
    budget: int | None = None,
) -> dict[str, Series]:
    """Reads the series of each metric from a log; `steps` are the patterns of the metrics' own
    steps, if the job gives them. Of a log with more bytes than `budget` only that many are
    read, in pieces from its beginning to its end."""
    found = {name: Series(most) for name in patterns}
    own = {name: pattern for name, pattern in (steps or {}).items() if pattern is not None}
    # Steps first, so that a line's own step is known before its value.
    usual = {} if own.keys() >= patterns.keys() else _USUAL
    marked = {_MARK + name: pattern for name, pattern in {**usual, **own}.items()}
    seen: dict[str, float] = {}
    read = 0
    for start, until in _pieces(path, budget):
        first = metric_logs.next_line(path, start)
        for each in found.values() if start else ():
            each.is_sampled = True
            each.go_to(round(each.count * first / read))
        log = metric_logs.MetricLog(path, {**marked, **patterns}, first, until, search)
        for name, value in log.read(ended=until is None):
            if name.startswith(_MARK):
                seen = {**seen, name.removeprefix(_MARK): value}
            else:
                found[name].add(value, seen)
        read += max(1, log.offset - first)
    return {name: each for name, each in found.items() if each.count}


def _pieces(path: Path, budget: int | None) -> list[tuple[int, int | None]]:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    if budget is None or size <= budget:
        return [(0, None)]
    count = max(2, budget // PIECE)
    starts = [(size - PIECE) * number // (count - 1) for number in range(count)]
    return [*((start, start + PIECE) for start in starts[:-1]), (starts[-1], None)]


# Parts of names that imply which values are better.
_LOWER = frozenset({"loss", "error", "err", "perplexity", "ppl", "wer", "cer", "nll"})
_LOWER |= {"mse", "rmse", "mae", "latency", "seconds", "time"}
_HIGHER = frozenset({"accuracy", "acc", "f1", "bleu", "auc", "precision", "recall"})
_HIGHER |= {"reward", "iou", "throughput"}


@dataclass(frozen=True)
class MetricSetting:
    """Settings of one metric: `lower` is True if its lowest value is the best, None if unknown;
    `step` is the pattern of the step that a value belongs to."""

    lower: bool | None = None
    step: re.Pattern[str] | None = None

    @property
    def best(self) -> Callable[..., float]:
        """`min` or `max`; `max` if unknown."""
        return min if self.lower else max


def metric_settings(folder: Path, metrics: Iterable[str]) -> dict[str, MetricSetting]:
    """Returns the setting of each of these metrics, from the job in the run's folder."""
    known = section_of(legible_facts(folder / "job.json"), "metrics")
    return {name: setting_of(name, known.get(name)) for name in metrics}


def setting_of(name: str, given: Any) -> MetricSetting:
    """Returns the setting of one metric, from its job's record."""
    said = given if isinstance(given, dict) else {}
    lower = {"lower": True, "higher": False}.get(str(said.get("better")), _lower_by_name(name))
    return MetricSetting(lower, _pattern(said.get("step")))


def _pattern(text: Any) -> re.Pattern[str] | None:
    try:
        found = re.compile(text) if isinstance(text, str) else None
    except re.error:
        return None
    return found if found is not None and found.groups == 1 else None


def _lower_by_name(name: str) -> bool | None:
    """Guesses from a metric's name if the lowest value is the best; None if the name does not say.

    >>> [_lower_by_name(each) for each in ("val_loss", "images_per_second", "norm")]
    [True, False, None]
    """
    parts = name.lower().split("_")
    if "per" in parts or _HIGHER & set(parts):
        return False
    return True if _LOWER & set(parts) else None
