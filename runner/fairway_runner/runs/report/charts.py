"""Charts of a run's page: metrics, overlays, node use, scaling and parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from fairway_runner.quantities import format_cell, number
from fairway_runner.runs.figures import Sample, mean
from fairway_runner.runs.folder import require_one_job
from fairway_runner.runs.metrics import Series, axis_of
from fairway_runner.runs.report import svg
from fairway_runner.runs.report.data import CATEGORIES, MOST_CURVES, Report, Row, read
from fairway_runner.runs.results import metric_name

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairway_runner.runs.store import Run

SIZE = (520.0, 300.0)
LEFT, RIGHT, TOP, BOTTOM = 58.0, 508.0, 14.0, 256.0


@dataclass(frozen=True)
class Line:
    """One line: its name, the class of its colour, its points."""

    name: str
    shade: str
    points: Sequence[tuple[float, float]]


def curves(metric: str, rows: Sequence[Row], params: Sequence[str]) -> Markup | None:
    """Returns the chart of one metric; None if no task has printed it."""
    having = [row for row in rows if metric in row.series]
    named = [(row.name(params), row.shade, row.series[metric]) for row in having]
    return _metric_chart(metric, named) if named else None


def _metric_chart(metric: str, named: Sequence[tuple[str, str, Series]]) -> Markup:
    """Draws series with their names and the classes of their colours; steps have integer ticks."""
    found = [series for *_, series in named]
    axis = axis_of(metric, found)
    drawn = [Line(name, shade, series.points_over(axis)) for name, shade, series in named]
    ends = [number(series.last) for series in sorted(found, key=lambda series: series.last)]
    description = f"{len(found)} tasks, the last values from {ends[0]} to {ends[-1]}."
    if len(found) == 1:
        one = found[0]
        count = f"about {one.end + 1}" if one.is_sampled else str(one.count)
        description = f"One task, {count} values, the last {ends[0]}."
    is_sampled = any(series.is_sampled for series in found)
    if is_sampled:
        description += " Long logs were read in part."
    points = [point for each in drawn for point in each.points]
    first, last = (svg.clamp(end(at for at, _ in points)) for end in (min, max))
    x = svg.Scale(first, max(last, first + 1, math.nextafter(first, math.inf)), LEFT, RIGHT)
    y = svg.scale_of((value for _, value in points), BOTTOM, TOP)
    lines = _polylines(drawn, [number(series.last) for series in found], x, y)
    title = "value printed, about" if is_sampled else "value printed"
    if axis is not None:
        title = "step" if axis == metric else axis
    parts = [*axes(x, y, title, integer_ticks(x) if last > first else [first]), lines]
    return svg.chart(f"curve-{metric}", metric, description, SIZE, parts)


def _polylines(drawn: Sequence[Line], hints: Sequence[str], x: svg.Scale, y: svg.Scale) -> Markup:
    lines = []
    for each, hint in zip(drawn, hints, strict=True):
        points = [(x(at), y(value)) for at, value in each.points]
        lines.append(svg.polyline(points, f"{each.name}: {hint}", class_=f"series {each.shade}"))
    return svg.tag("g", *lines, class_="lines")


def integer_ticks(scale: svg.Scale) -> list[float]:
    """Returns integers from one end of the scale to the other, including its low end."""
    if scale.high - scale.low <= 10:
        return [scale.low + number for number in range(int(scale.high - scale.low) + 1)]
    ticks = [tick for tick in scale.ticks() if tick.is_integer()]
    return [scale.low, *(tick for tick in ticks if scale(tick) - scale(scale.low) > 24)]


def axes(x: svg.Scale, y: svg.Scale, x_title: str, x_ticks: Sequence[float]) -> Iterator[Markup]:
    """Yields the lines and labels of both axes; the values to label on the x axis are given."""
    for tick in y.ticks():
        yield svg.line(LEFT, y(tick), RIGHT, y(tick), "grid")
        yield svg.text(LEFT - 8, y(tick) + 4, svg.label(tick), "end", "tick")
    yield svg.line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
    for tick in x_ticks:
        yield svg.text(x(tick), BOTTOM + 18, svg.label(tick), "middle", "tick")
    yield svg.text((LEFT + RIGHT) / 2, BOTTOM + 37, x_title, "middle", "axis-title")


@dataclass(frozen=True)
class Overlay:
    """Charts of metrics, each run with the class of its colour, and how many tasks are left out."""

    charts: Sequence[tuple[str, Markup]]
    legend: Sequence[tuple[str, str]]
    left_out: int


def overlay(runs: Sequence[Run]) -> Overlay:
    """Draws the curves of up to MOST_CURVES tasks. Raises UserError for an unreadable run."""
    found = [
        (run, row, f"c{index % CATEGORIES}")
        for index, run in enumerate(runs)
        for row in read(run).drawn
    ]
    shown = found[:MOST_CURVES]
    charts = []
    for metric in dict.fromkeys(name for _, row, _ in shown for name in row.series):
        named = [
            (f"{run.id}/{row.task.index}" if run.is_sweep else run.id, shade, row.series[metric])
            for run, row, shade in shown
            if metric in row.series
        ]
        charts.append((metric, _metric_chart(metric, named)))
    legend = [(run.id, f"c{index % CATEGORIES}") for index, run in enumerate(runs)]
    return Overlay(charts, legend, len(found) - len(shown))


MOST_NODES = 64  # nodes drawn
_POINTS = 300  # points per line
_MINUTE = 60.0

# ID, title, and value (from 0 to 1) of each chart.
_CHARTS: tuple[tuple[str, str, Callable[[Sample], float | None]], ...] = (
    ("gpus", "GPUs busy, %", lambda sample: sample.gpu_use),
    ("cpu", "Processors busy, %", lambda sample: sample.cpu),
    ("io", "Waiting for files, %", lambda sample: sample.io_wait),
    ("fabric", "InfiniBand, % of its speed", lambda sample: sample.fabric_use),
)


def legend(nodes: Mapping[str, Sequence[Sample]]) -> list[tuple[str, str]]:
    """Returns each node with the class of its colour; nothing for one, or for too many."""
    if not 1 < len(nodes) <= CATEGORIES:
        return []
    return [(node, f"c{number}") for number, node in enumerate(nodes)]


def node_charts(nodes: Mapping[str, Sequence[Sample]]) -> list[tuple[str, Markup]]:
    """Returns a chart, with its title, of each figure that the nodes have reported."""
    drawn = dict(list(nodes.items())[:MOST_NODES])
    start = min((samples[0].time for samples in drawn.values() if samples), default=0.0)
    alone = "c0" if len(nodes) == 1 else "cx"
    shades = dict.fromkeys(drawn, alone) | dict(legend(nodes))
    found = []
    for name, title, share in _CHARTS:
        lines = []
        for node, samples in drawn.items():
            series = Series(_POINTS)
            for sample in samples:
                if (value := share(sample)) is not None:
                    series.add(100 * value, {"minute": max(0.0, sample.time - start) / _MINUTE})
            if series.count:
                lines.append(Line(node, shades[node], series.points_over("minute")))
        if lines:
            found.append((title, _node_chart(f"nodes-{name}", title, lines)))
    return found


def _node_chart(name: str, title: str, lines: Sequence[Line]) -> Markup:
    longest = max(at for each in lines for at, _ in each.points)
    x = svg.Scale(0.0, longest or 1.0, LEFT, RIGHT)
    y = svg.Scale(0.0, 100.0, BOTTOM, TOP, step=25.0)
    means = [mean(value for _, value in each.points) or 0.0 for each in lines]
    shown = [
        Line(each.name, each.shade, [(at, min(value, 100.0)) for at, value in each.points])
        for each in lines
    ]
    hints = [f"{each:.0f} % on average" for each in means]
    description = f"{len(lines)} nodes, with averages from {min(means):.0f} to {max(means):.0f} %."
    if len(lines) == 1:
        description = f"One node, {hints[0]}."
    parts = [*axes(x, y, "minutes", x.ticks()), _polylines(shown, hints, x, y)]
    return svg.chart(name, title, description, SIZE, parts)


@dataclass(frozen=True)
class Point:
    """All tasks of one number of ranks: the median of their throughput, and the fraction of
    what it would be if every rank did as well as those of the smallest tasks."""

    ranks: int
    tasks: int
    throughput: float
    efficiency: float


def throughput_metric(report: Report, wanted: str | None) -> str | None:
    """Returns the metric of a task's speed: the `wanted` one, or the first that is a rate. Raises
    UserError if the run has no metric of that name, or several steps."""
    if wanted is not None:
        return metric_name(require_one_job(report.run).record.metrics, wanted, report.run.id)
    return next((name for name in report.metrics if "per_second" in name), None)


def points(report: Report, metric: str) -> list[Point]:
    """Returns a point per number of ranks, the smallest first; empty if nothing can be compared."""
    found: dict[int, list[float]] = {}
    for row in report.rows:
        throughput = svg.clamp(row.metrics.get(metric, 0.0))
        if row.task.state == "succeeded" and throughput > 0:
            found.setdefault(row.task.world_size, []).append(throughput)
    if len(found) < 2:
        return []
    smallest = min(found)
    unit = median(found[smallest]) / smallest
    return [
        Point(ranks, len(values), median(values), median(values) / ranks / unit)
        for ranks, values in sorted(found.items())
    ]


def scaling(found: Sequence[Point], metric: str) -> Markup:
    """Draws throughput over ranks, and next to it the throughput at full efficiency."""
    first, last = found[0], found[-1]
    ideal = [first.throughput, first.throughput * last.ranks / first.ranks]
    wide = last.ranks / first.ranks >= 8
    x = svg.Scale(first.ranks, last.ranks, LEFT + 36, RIGHT - 24, log=wide)
    values = [*ideal, *(point.throughput for point in found)]
    y = svg.scale_of(values if wide else [0.0, *values], BOTTOM, TOP, log=wide)
    measured = [(x(point.ranks), y(point.throughput)) for point in found]
    parts = [
        *axes(x, y, "ranks", _spread([point.ranks for point in found], x)),
        svg.polyline(
            [(x(first.ranks), y(ideal[0])), (x(last.ranks), y(ideal[1]))],
            f"if every rank were as fast as with {first.ranks}",
            class_="ideal",
        ),
        svg.polyline(measured, metric, class_="series c0"),
    ]
    for point, (px, py) in zip(found, measured, strict=True):
        hint = f"{point.ranks} ranks: {svg.label(point.throughput)}, {point.efficiency:.0%}"
        parts.append(svg.tag("circle", svg.tag("title", hint), cx=px, cy=py, r=4, class_="dot c0"))
        parts.append(svg.text(px + 9, py - 7, f"{point.efficiency:.0%}", "start", "tick halo"))
    description = "; ".join(
        f"{point.ranks} ranks {svg.label(point.throughput)}, {point.efficiency:.0%} efficient"
        for point in found
    )
    return svg.chart("scaling", f"{metric} over ranks", description, SIZE, parts)


def _spread(ranks: Sequence[int], x: svg.Scale) -> list[float]:
    kept: list[float] = []
    for rank in reversed(ranks):
        if not kept or x(kept[-1]) - x(rank) >= 28:
            kept.append(rank)
    return kept


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
    kind: str
    height: Callable[[Row], float | None]
    ticks: list[tuple[float, str]]


def parallel_coordinates(report: Report) -> Markup | None:
    """Returns the chart; None if fewer than two tasks or axes are left to compare."""
    rows = [row for row in report.rows if row.metrics][:_MOST_LINES]
    if len(rows) < 2 or not report.params:
        return None
    axes = [_param_axis(name, rows) for name in report.params]
    ended = dict.fromkeys(name for row in rows for name in row.metrics)
    axes += [_metric_axis(name, rows) for name in report.metrics if name in ended]
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
        results = ", ".join(f"{name} {value:.6g}" for name, value in row.metrics.items())
        hint = f"{row.name(report.params)} → {results}"
        lines.append(svg.polyline(points, hint, class_=f"series {row.shade}"))
    drawn = [each for x, axis in zip(positions, axes, strict=True) for each in _draw(axis, x)]
    description = (
        f"{len(rows)} tasks as lines across {len(axes)} axes: "
        f"{', '.join(axis.name for axis in axes)}. The table of tasks has the same values."
    )
    parts = [svg.tag("g", *lines, class_="lines"), *drawn]
    return svg.chart("parallel", "Parameters and results", description, (_WIDTH, _HEIGHT), parts)


def _param_axis(name: str, rows: Sequence[Row]) -> _Axis:
    values = [row.task.params.get(name) for row in rows]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return _number_axis(name, rows)
    words = list(dict.fromkeys(map(format_cell, values)))
    step = (_BOTTOM - _TOP) / max(1, len(words) - 1)
    positions = {word: _TOP + step * number for number, word in enumerate(words)}
    every = -(-len(words) // _MOST_LABELS)
    marks = [(positions[word], word) for word in words[::every]]
    return _Axis(
        name, "param", lambda row: positions[format_cell(row.task.params.get(name))], marks
    )


def _number_axis(name: str, rows: Sequence[Row]) -> _Axis:
    def value_of(row: Row) -> float:
        value = row.task.params[name]
        assert isinstance(value, int | float), "only axes of numbers are made here"
        return svg.clamp(value)

    values = sorted({value_of(row) for row in rows})
    # Values chosen for a sweep, such as 0.01, 0.1, 1, are often powers.
    scale = svg.scale_of(values, _BOTTOM, _TOP, log=values[0] > 0 and values[-1] / values[0] >= 20)
    marks = values if len(values) <= _MOST_LABELS else scale.ticks()
    ticks = [(scale(v), svg.label(v)) for v in marks]
    return _Axis(name, "param", lambda row: scale(value_of(row)), ticks)


def _metric_axis(name: str, rows: Sequence[Row]) -> _Axis:
    scale = svg.scale_of([row.metrics[name] for row in rows if name in row.metrics], _BOTTOM, _TOP)

    def height(row: Row) -> float | None:
        return scale(row.metrics[name]) if name in row.metrics else None

    return _Axis(name, "metric", height, [(scale(tick), svg.label(tick)) for tick in scale.ticks()])


def _draw(axis: _Axis, x: float) -> Iterator[Markup]:
    yield svg.line(x, _TOP, x, _BOTTOM, "axis")
    yield svg.text(x, _TOP - 26, _short(axis.name, 22), "middle", f"axis-name {axis.kind}")
    last = -math.inf
    for y, mark in sorted(axis.ticks):
        if y - last >= 13:  # omit labels that would overlap
            yield svg.line(x - 4, y, x + 4, y, "axis")
            yield svg.text(x - 8, y + 4, _short(mark, _LONGEST), "end", "tick halo")
            last = y


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
