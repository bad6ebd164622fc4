"""How a metric went: a line a task over the values that it printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.quantities import number
from fairway_runner.runs.report.scales import Scale, label, scale_of
from fairway_runner.runs.report.svg import chart, group, line, polyline, text
from fairway_runner.runs.series import axis_of, axis_title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from fairway_runner.runs.report.data import Row

SIZE = (520.0, 300.0)
LEFT, RIGHT, TOP, BOTTOM = 58.0, 508.0, 14.0, 256.0


@dataclass(frozen=True)
class Line:
    """One line: what it is called, its colour's class, its points."""

    name: str
    shade: str
    points: Sequence[tuple[float, float]]


def curves(metric: str, rows: Sequence[Row], params: Sequence[str]) -> Markup | None:
    """The chart of one metric; None where no task has printed it."""
    having = [row for row in rows if metric in row.series]
    if not having:
        return None
    axis = axis_of(metric, [row.series[metric] for row in having])
    drawn = [
        Line(row.name(params), row.shade, row.series[metric].points_over(axis)) for row in having
    ]
    lowest, highest = (
        number(extreme(row.series[metric].last for row in having)) for extreme in (min, max)
    )
    description = f"{len(having)} tasks, the last values from {lowest} to {highest}."
    if len(having) == 1:
        one = having[0].series[metric]
        count = f"about {one.end + 1}" if one.is_sampled else str(one.count)
        description = f"One task, {count} values, the last {lowest}."
    is_sampled = any(row.series[metric].is_sampled for row in having)
    if is_sampled:
        description += " Long logs were read in part."
    return lines_chart(metric, drawn, axis_title(metric, axis, is_sampled=is_sampled), description)


def lines_chart(metric: str, drawn: Sequence[Line], title: str, description: str) -> Markup:
    """A chart of these lines; `title` is written below the axis, whose ticks are whole numbers."""
    points = [point for each in drawn for point in each.points]
    first, last = (end(at for at, _ in points) for end in (min, max))
    x = Scale(first, max(last, first + 1), LEFT, RIGHT)
    y = scale_of((value for _, value in points), BOTTOM, TOP)
    lines = [
        polyline(
            [(x(at), y(value)) for at, value in each.points],
            f"{each.name}: {number(each.points[-1][1])}",
            class_=f"series {each.shade}",
        )
        for each in drawn
    ]
    ticks = whole_ticks(x) if last > first else [first]
    parts = [*axes(x, y, title, ticks), group(lines, class_="lines")]
    return chart(f"curve-{metric}", metric, description, SIZE, parts)


def whole_ticks(scale: Scale) -> list[float]:
    """Whole numbers from one end of the scale to the other, its low end among them."""
    if scale.high - scale.low <= 10:
        return [scale.low + number for number in range(int(scale.high - scale.low) + 1)]
    ticks = [tick for tick in scale.ticks() if tick.is_integer()]
    return [scale.low, *(tick for tick in ticks if scale(tick) - scale(scale.low) > 24)]


def axes(x: Scale, y: Scale, x_title: str, x_ticks: Sequence[float]) -> Iterator[Markup]:
    """Both axes with a few round values, those of the x axis given."""
    for tick in y.ticks():
        yield line(LEFT, y(tick), RIGHT, y(tick), "grid")
        yield text(LEFT - 8, y(tick) + 4, label(tick), "end", "tick")
    yield line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
    for tick in x_ticks:
        yield text(x(tick), BOTTOM + 18, label(tick), "middle", "tick")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 37, x_title, "middle", "axis-title")
