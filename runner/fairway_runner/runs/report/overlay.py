"""The curves of several runs over one another, by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_runner.quantities import number
from fairway_runner.runs.report.curves import Line, lines_chart
from fairway_runner.runs.report.data import CATEGORIES, MOST_CURVES, read
from fairway_runner.runs.series import axis_of, axis_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from fairway_runner.runs.report.data import Row
    from fairway_runner.runs.store import Run


@dataclass(frozen=True)
class Overlay:
    """The chart of each metric that two tasks have; the run of each colour's class; how many tasks
    are left out."""

    charts: Sequence[tuple[str, Markup]]
    legend: Sequence[tuple[str, str]]
    left_out: int


def overlay(runs: Sequence[Run]) -> Overlay:
    """The curves of all their tasks, MOST_CURVES of them. UserError for a run that cannot be
    read."""
    found = [
        (run, row, f"c{index % CATEGORIES}")
        for index, run in enumerate(runs)
        for row in read(run).drawn
    ]
    shown = found[:MOST_CURVES]
    charts = []
    for metric in dict.fromkeys(name for _, row, _ in shown for name in row.series):
        having = [each for each in shown if metric in each[1].series]
        axis = axis_of(metric, [row.series[metric] for _, row, _ in having])
        lines = [
            Line(_name(run, row), shade, row.series[metric].points_over(axis))
            for run, row, shade in having
        ]
        charts.append((metric, _chart(metric, lines, axis_title(metric, axis))))
    legend = [(run.id, f"c{index % CATEGORIES}") for index, run in enumerate(runs)]
    return Overlay(charts, legend, len(found) - len(shown))


def _name(run: Run, row: Row) -> str:
    return f"{run.id}/{row.task.index}" if run.is_sweep else run.id


def _chart(metric: str, lines: Sequence[Line], title: str) -> Markup:
    lasts = [each.points[-1][1] for each in lines]
    words = (
        f"{len(lines)} tasks, the last values from {number(min(lasts))} to {number(max(lasts))}."
    )
    return lines_chart(metric, lines, title, words)
