"""The curves of several runs over one another: by step, or by the time since each task began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.quantities import number
from fairway_runner.runs.report.curves import Line, lines_chart
from fairway_runner.runs.report.data import CATEGORIES, MOST_CURVES, read
from fairway_runner.runs.series import axis_of, axis_title
from fairway_runner.runs.timed import timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from fairway_runner.runs.report.data import Row
    from fairway_runner.runs.store import Run

# How long each unit is in seconds. An axis has the longest of which it shows ten.
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


@dataclass(frozen=True)
class Overlay:
    """The chart of each metric that two tasks have; the run of each colour's class; how many tasks
    are left out, and whether there are tasks of which nobody knows when they printed what."""

    charts: Sequence[tuple[str, Markup]]
    legend: Sequence[tuple[str, str]]
    left_out: int
    timeless: bool


def overlay(runs: Sequence[Run], *, by_time: bool = False) -> Overlay:
    """The curves of all their tasks, MOST_CURVES of them. UserError for a run that cannot be
    read."""
    found = [
        (run, row, f"c{index % CATEGORIES}")
        for index, run in enumerate(runs)
        for row in read(run).drawn
    ]
    shown = found[:MOST_CURVES]
    timeless = False
    drawn: dict[str, list[Line]] = {}
    titles: dict[str, str] = {}
    for metric in dict.fromkeys(name for _, row, _ in shown for name in row.series):
        having = [each for each in shown if metric in each[1].series]
        axis = axis_of(metric, [row.series[metric] for _, row, _ in having])
        titles[metric] = axis_title(metric, axis)
        drawn[metric] = [
            Line(_name(run, row), shade, row.series[metric].points_over(axis))
            for run, row, shade in having
        ]
    if by_time:
        known = [(_name(run, row), shade, timed(row.task)) for run, row, shade in shown]
        timeless = not all(points for _, _, points in known)
        titles = dict.fromkeys(drawn, "")
        drawn = {
            metric: [
                Line(name, shade, each[metric]) for name, shade, each in known if metric in each
            ]
            for metric in drawn
        }
    charts = [_chart(metric, lines, titles[metric]) for metric, lines in drawn.items() if lines]
    legend = [(run.id, f"c{index % CATEGORIES}") for index, run in enumerate(runs)]
    return Overlay(charts, legend, len(found) - len(shown), timeless)


def _name(run: Run, row: Row) -> str:
    return f"{run.id}/{row.task.index}" if run.is_sweep else run.id


def _chart(metric: str, lines: Sequence[Line], title: str) -> tuple[str, Markup]:
    if not title:
        longest = max(at for each in lines for at, _ in each.points)
        seconds, title = next((unit for unit in _UNITS if longest >= 10 * unit[0]), _UNITS[-1])
        lines = [
            Line(each.name, each.shade, [(at / seconds, value) for at, value in each.points])
            for each in lines
        ]
    lasts = [each.points[-1][1] for each in lines]
    words = (
        f"{len(lines)} tasks, the last values from {number(min(lasts))} to {number(max(lasts))}."
    )
    return metric, lines_chart(metric, lines, title, words)
