"""How a metric went: its values in their order, each with the step that it belongs to."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from fairway_agent.metric_logs import next_line
from fairway_runner.runs.metrics import metric_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.metric_logs import Patterns

PIECE = 1 << 18
"""Bytes of a log that are read together where not all of it is."""

# How programs name their steps, where the job does not say how; what counts most often first.
# Each begins with letters that a line seldom has, which are looked for ten times as fast.
_USUAL = {
    name: re.compile(rf"{words}[\s=:\[(#]*([0-9]+)")
    for name, words in (
        ("step", "tep(?<=[sS]tep)"),
        ("iteration", "ter(?<=[iI]ter)(?:ation)?"),
        ("epoch", "poch(?<=[eE]poch)"),
    )
}
# Before the names of steps among those of metrics, which have no spaces.
_MARK = "step of "


@dataclass
class Series:
    """The values of one metric in their order, thinned out evenly where there are many.

    `points` are (position, value), the position counting every value from 0, and `marks` the
    steps that had been printed by then, by their names. There are never more than `most` of
    them; the last value is always `last`, at the position `end`. Where `is_sampled` a part of the
    log was read, and positions are about those of the values.
    """

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
        """The next value is about at that position, which may not be before the last one's."""
        self.end = max(self.end, position - 1)

    def add(self, value: float, marks: Mapping[str, float] | None = None) -> None:
        """Takes the next value."""
        self.end += 1
        if self.count % self._step == 0:
            self.points.append((self.end, value))
            self.marks.append(marks or {})
            if len(self.points) > self.most:
                self.points, self.marks = self.points[::2], self.marks[::2]
                self._step *= 2
        self.count += 1
        self.last, self.last_marks = value, marks or {}

    def drawn(self, axis: str | None = None) -> list[tuple[float, float]]:
        """The points over their positions, or the steps of that name, the last among them."""
        points, marks = list(self.points), list(self.marks)
        if self.count and points[-1][0] != self.end:
            points.append((self.end, self.last))
            marks.append(self.last_marks)
        if axis is None:
            return [(float(at), value) for at, value in points]
        return [(mark[axis], value) for mark, (_, value) in zip(marks, points, strict=True)]

    def points_over(self, axis: str | None) -> list[tuple[float, float]]:
        """The same, where values that have no step count from 1."""
        return [(at + (axis is None), value) for at, value in self.drawn(axis)]

    def goes_by(self, axis: str) -> bool:
        """Whether every value belongs to a step of that name, and the steps go on."""
        if not all(axis in mark for mark in [*self.marks, self.last_marks]):
            return False
        steps = [at for at, _ in self.drawn(axis)]
        return all(a <= b for a, b in pairwise(steps)) and steps[0] < steps[-1]


def axis_of(metric: str, found: Sequence[Series]) -> str | None:
    """The steps over which the values of all tasks can be drawn; None is by their positions."""
    for axis in (metric, *_USUAL):
        if all(each.goes_by(axis) for each in found):
            return axis
    return None


def axis_title(metric: str, axis: str | None, *, is_sampled: bool = False) -> str:
    """What is written below the axis."""
    if axis is None:
        return "value printed, about" if is_sampled else "value printed"
    return "step" if axis == metric else axis


def series(
    path: Path,
    patterns: Patterns,
    most: int = 1000,
    steps: Mapping[str, re.Pattern[str] | None] | None = None,
    budget: int | None = None,
) -> dict[str, Series]:
    """All that a log says of each metric that it has; `steps` are the patterns of the metrics'
    own steps, as far as the job gives them. Of a log with more bytes than `budget` that many are
    read, in pieces from its beginning to its end."""
    found = {name: Series(most) for name in patterns}
    own = {name: pattern for name, pattern in (steps or {}).items() if pattern is not None}
    # Steps first, so that a line's own step is known when its value comes.
    usual = {} if own.keys() >= patterns.keys() else _USUAL
    marked = {_MARK + name: pattern for name, pattern in {**usual, **own}.items()}
    seen: dict[str, float] = {}
    read = 0
    for start, until in _pieces(path, budget):
        first = next_line(path, start)
        for each in found.values() if start else ():
            each.is_sampled = True
            each.go_to(round(each.count * first / read))
        log = metric_log(path, {**marked, **patterns}, first, until)
        for name, value in log.read(ended=until is None):
            if name.startswith(_MARK):
                seen = {**seen, name.removeprefix(_MARK): value}
            else:
                found[name].add(value, seen)
        read += max(1, log.offset - first)
    return {name: each for name, each in found.items() if each.count}


def _pieces(path: Path, budget: int | None) -> list[tuple[int, int | None]]:
    """Where the parts of a log that are read begin and end; None is the end of the log."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    if budget is None or size <= budget:
        return [(0, None)]
    count = max(2, budget // PIECE)
    starts = [(size - PIECE) * number // (count - 1) for number in range(count)]
    return [*((start, start + PIECE) for start in starts[:-1]), (starts[-1], None)]
