"""A sweep in parallel coordinates: an axis a parameter and a metric, a line a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.runs.report.scales import label, scale_of
from fairway_runner.runs.report.svg import chart, group, line, polyline, text
from fairway_runner.runs.varying import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markupsafe import Markup

    from fairway_runner.jobs.params import ParamValue
    from fairway_runner.runs.report.data import Report, Row

_WIDTH, _HEIGHT = 1060.0, 380.0
_TOP, _BOTTOM = 52.0, 350.0
_SIDE = 80.0
_MOST_LINES = 1000
_MOST_AXES = 12
_MOST_LABELS = 10
_LONGEST = 14  # characters of a label


@dataclass(frozen=True)
class _Axis:
    name: str
    is_metric: bool
    height: Callable[[Row], float | None]
    ticks: list[tuple[float, str]]


def parallel(report: Report) -> Markup | None:
    """The chart; None where fewer than two tasks or axes are left to compare."""
    rows = [row for row in report.rows if row.metrics][:_MOST_LINES]
    if len(rows) < 2 or not report.params:
        return None
    axes = [_param_axis(name, rows) for name in report.params]
    axes += [_metric_axis(name, rows) for name in report.metrics]
    axes = axes[:_MOST_AXES]
    step = (_WIDTH - 2 * _SIDE) / (len(axes) - 1)
    positions = [_SIDE + step * number for number in range(len(axes))]
    lines = []
    for row in rows:
        points = [
            (x, y)
            for x, axis in zip(positions, axes, strict=True)
            if (y := axis.height(row)) is not None
        ]
        lines.append(polyline(points, _hint(report, row), class_=f"series {row.shade}"))
    drawn = [each for x, axis in zip(positions, axes, strict=True) for each in _draw(axis, x)]
    description = (
        f"{len(rows)} tasks as lines across {len(axes)} axes: "
        f"{', '.join(axis.name for axis in axes)}. The table of tasks has the same values."
    )
    parts = [group(lines, class_="lines"), *drawn]
    return chart("parallel", "Parameters and results", description, (_WIDTH, _HEIGHT), parts)


def _hint(report: Report, row: Row) -> str:
    results = ", ".join(f"{name} {value:.6g}" for name, value in row.metrics.items())
    return f"{row.name(report.params)} → {results}"


def _param_axis(name: str, rows: Sequence[Row]) -> _Axis:
    values = [row.task.params.get(name) for row in rows]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return _number_axis(name, rows)
    return _word_axis(name, values)


def _number_axis(name: str, rows: Sequence[Row]) -> _Axis:
    def value_of(row: Row) -> float:
        value = row.task.params[name]
        assert isinstance(value, int | float), "only axes of numbers are made here"
        return float(value)

    values = sorted({value_of(row) for row in rows})
    # Values that people choose for a sweep, such as 0.01, 0.1, 1, are often powers.
    is_log = values[0] > 0 and values[-1] / values[0] >= 20
    scale = scale_of(values, _BOTTOM, _TOP, log=is_log)
    marks = values if len(values) <= _MOST_LABELS else scale.ticks()
    return _Axis(
        name, False, lambda row: scale(value_of(row)), [(scale(v), label(v)) for v in marks]
    )


def _word_axis(name: str, values: Sequence[ParamValue | None]) -> _Axis:
    words = list(dict.fromkeys(map(shown, values)))
    step = (_BOTTOM - _TOP) / max(1, len(words) - 1)
    positions = {word: _TOP + step * number for number, word in enumerate(words)}
    every = -(-len(words) // _MOST_LABELS)
    marks = [(positions[word], word) for word in words[::every]]
    return _Axis(name, False, lambda row: positions[shown(row.task.params.get(name))], marks)


def _metric_axis(name: str, rows: Sequence[Row]) -> _Axis:
    values = [row.metrics[name] for row in rows if name in row.metrics]
    scale = scale_of(values, _BOTTOM, _TOP)

    def height(row: Row) -> float | None:
        return scale(row.metrics[name]) if name in row.metrics else None

    return _Axis(name, True, height, [(scale(tick), label(tick)) for tick in scale.ticks()])


def _draw(axis: _Axis, x: float) -> list[Markup]:
    kind = "metric" if axis.is_metric else "param"
    parts = [
        line(x, _TOP, x, _BOTTOM, "axis"),
        text(x, _TOP - 26, _short(axis.name, 22), "middle", f"axis-name {kind}"),
    ]
    last = None
    for y, mark in sorted(axis.ticks):
        if last is None or y - last >= 13:  # labels that would cover one another are left out
            parts.append(line(x - 4, y, x + 4, y, "axis"))
            parts.append(text(x - 8, y + 4, _short(mark, _LONGEST), "end", "tick halo"))
            last = y
    return parts


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
