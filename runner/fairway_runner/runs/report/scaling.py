"""How throughput grows with ranks, and the efficiency against the smallest task."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from fairway_runner.runs.report.curves import BOTTOM, LEFT, RIGHT, SIZE, TOP, axes
from fairway_runner.runs.report.scales import Scale, label, scale_of
from fairway_runner.runs.report.svg import chart, polyline, tag, text
from fairway_runner.runs.results import metric_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from fairway_runner.runs.report.data import Report


@dataclass(frozen=True)
class Point:
    """All tasks of one number of ranks: the median of their throughput, and the fraction of
    what it would be if every rank did as well as those of the smallest tasks."""

    ranks: int
    tasks: int
    throughput: float
    efficiency: float


def throughput_metric(report: Report, wanted: str | None) -> str | None:
    """The metric that says how fast a task is: the one asked for, or the first that is a rate.

    UserError where the run has none of the name.
    """
    if wanted is not None:
        return metric_name(report.run, wanted)
    return next((name for name in report.metrics if "per_second" in name), None)


def points(report: Report, metric: str) -> list[Point]:
    """A point a number of ranks, the smallest first; empty where nothing can be compared."""
    found: dict[int, list[float]] = {}
    for row in report.rows:
        if row.task.state == "succeeded" and row.metrics.get(metric, 0.0) > 0:
            found.setdefault(row.task.world_size, []).append(row.metrics[metric])
    if len(found) < 2:
        return []
    smallest = min(found)
    unit = median(found[smallest]) / smallest
    return [
        Point(ranks, len(values), median(values), median(values) / ranks / unit)
        for ranks, values in sorted(found.items())
    ]


def scaling(found: Sequence[Point], metric: str) -> Markup:
    """Throughput over ranks, and beside it what it would be at full efficiency."""
    first, last = found[0], found[-1]
    ideal = [first.throughput, first.throughput * last.ranks / first.ranks]
    wide = last.ranks / first.ranks >= 8
    x = Scale(first.ranks, last.ranks, LEFT + 36, RIGHT - 24, log=wide)
    values = [*ideal, *(point.throughput for point in found)]
    y = scale_of(values if wide else [0.0, *values], BOTTOM, TOP, log=wide)
    measured = [(x(point.ranks), y(point.throughput)) for point in found]
    parts = [
        *axes(x, y, "ranks", _apart([point.ranks for point in found], x)),
        polyline(
            [(x(first.ranks), y(ideal[0])), (x(last.ranks), y(ideal[1]))],
            f"if every rank were as fast as with {first.ranks}",
            class_="ideal",
        ),
        polyline(measured, metric, class_="series c0"),
    ]
    for point, (px, py) in zip(found, measured, strict=True):
        hint = f"{point.ranks} ranks: {label(point.throughput)}, {point.efficiency:.0%}"
        parts.append(tag("circle", tag("title", hint), cx=px, cy=py, r=4, class_="dot c0"))
        parts.append(text(px + 9, py - 7, f"{point.efficiency:.0%}", "start", "tick halo"))
    description = "; ".join(
        f"{point.ranks} ranks {label(point.throughput)}, {point.efficiency:.0%} efficient"
        for point in found
    )
    return chart("scaling", f"{metric} over ranks", description, SIZE, parts)


def _apart(ranks: Sequence[int], x: Scale) -> list[float]:
    """Those whose labels do not touch, the largest among them."""
    kept: list[float] = []
    for rank in reversed(ranks):
        if not kept or x(kept[-1]) - x(rank) >= 28:
            kept.append(rank)
    return kept
