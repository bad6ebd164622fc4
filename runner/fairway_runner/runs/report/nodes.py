"""How a run used its nodes: a line a node over the time, from what was sampled on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_runner.runs.figures import mean
from fairway_runner.runs.report.curves import BOTTOM, LEFT, RIGHT, SIZE, TOP, axes
from fairway_runner.runs.report.data import CATEGORIES
from fairway_runner.runs.report.scales import Scale
from fairway_runner.runs.report.svg import chart, group, polyline
from fairway_runner.runs.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from markupsafe import Markup

    from fairway_runner.runs.figures import Sample

MOST_NODES = 64  # that are drawn
_POINTS = 300  # of each line
_MINUTE = 60.0

# Of each chart its id, its title, and the share of 1 that it shows.
_CHARTS: tuple[tuple[str, str, Callable[[Sample], float | None]], ...] = (
    ("gpus", "GPUs busy, %", lambda sample: sample.gpu_use),
    ("cpu", "Processors busy, %", lambda sample: sample.cpu),
    ("io", "Waiting for files, %", lambda sample: sample.io_wait),
    ("fabric", "InfiniBand, % of its speed", lambda sample: sample.fabric_use),
)


def legend(nodes: Mapping[str, Sequence[Sample]]) -> list[tuple[str, str]]:
    """Each node with the class of its colour; nothing where one needs none, or they are more than
    there are colours."""
    if not 1 < len(nodes) <= CATEGORIES:
        return []
    return [(node, f"c{number}") for number, node in enumerate(nodes)]


def node_charts(nodes: Mapping[str, Sequence[Sample]]) -> list[tuple[str, Markup]]:
    """A chart, with its title, of everything that the nodes have told."""
    drawn = dict(list(nodes.items())[:MOST_NODES])
    starts = [samples[0].time for samples in drawn.values() if samples]
    if not starts:
        return []
    alone = "c0" if len(nodes) == 1 else "cx"
    shades = {node: dict(legend(nodes)).get(node, alone) for node in drawn}
    found = []
    for name, title, share in _CHARTS:
        lines = {
            node: line
            for node, samples in drawn.items()
            if (line := _line(samples, share, min(starts)))
        }
        if lines:
            found.append((title, _chart(f"nodes-{name}", title, lines, shades)))
    return found


def _line(
    samples: Sequence[Sample], share: Callable[[Sample], float | None], start: float
) -> list[tuple[float, float]]:
    """The minutes since the start, and the share in percent, thinned out where there are many."""
    series = Series(_POINTS)
    for sample in samples:
        if (value := share(sample)) is not None:
            series.add(100 * value, {"minute": max(0.0, sample.time - start) / _MINUTE})
    return series.drawn("minute") if series.count else []


def _chart(
    name: str,
    title: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    shades: Mapping[str, str],
) -> Markup:
    longest = max(at for line in lines.values() for at, _ in line)
    x = Scale(0.0, longest or 1.0, LEFT, RIGHT)
    y = Scale(0.0, 100.0, BOTTOM, TOP, step=25.0)
    means = {node: mean(value for _, value in line) or 0.0 for node, line in lines.items()}
    drawn = [
        polyline(
            [(x(at), y(min(value, 100.0))) for at, value in line],
            f"{node}: {means[node]:.0f} % on average",
            class_=f"series {shades[node]}",
        )
        for node, line in lines.items()
    ]
    low, high = min(means.values()), max(means.values())
    description = f"{len(lines)} nodes, with averages from {low:.0f} to {high:.0f} %."
    if len(lines) == 1:
        description = f"One node, {low:.0f} % on average."
    parts = [*axes(x, y, "minutes", x.ticks()), group(drawn, class_="lines")]
    return chart(name, title, description, SIZE, parts)
