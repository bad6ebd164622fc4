"""The limits of a run as a whole: how long it may take, and what it may cost.

Whatever watches a run asks here, with what it knows: since when the run goes on, and what of nodes
it has held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import job_facts, state_files
from fairway_agent.records import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fairway_agent.spec import RunPlan

_SILENT = 60.0  # seconds after which a task that says nothing is not there any more


@dataclass(frozen=True, slots=True)
class Held:
    """A run's use until now, in node-seconds, and the number of `nodes`, or parts, that it has."""

    seconds: float = 0.0
    nodes: float = 0


@dataclass(frozen=True, slots=True)
class Over(JsonRecord):
    """Limit that the run has exceeded: the job's field, and the message for people."""

    CALLED = "the limit"

    limit: str
    reason: str


def over(plan: RunPlan, now: float, started: float | None, held: Held) -> Over | None:
    """The limit that a run is over; None where it is over none, or has not begun."""
    if started is None:
        return None
    most, budget = plan.max_duration, plan.max_cost
    if most is not None and now >= started + most:
        return Over("max_duration", f"it was over its max_duration of {written(most)}")
    if budget is not None and held.seconds >= budget.node_seconds:
        return Over("max_cost", f"it was over its max_cost of {budget.text}")
    return None


def due(plan: RunPlan, now: float, started: float | None, held: Held) -> float | None:
    """When the run is over a limit, if it keeps the nodes that it has; None for never."""
    if started is None:
        return None
    found = []
    if plan.max_duration is not None:
        found.append(started + plan.max_duration)
    if plan.max_cost is not None and held.nodes:
        found.append(now + max(0.0, plan.max_cost.node_seconds - held.seconds) / held.nodes)
    return min(found, default=None)


def longest(plan: RunPlan, preparation: float) -> float | None:
    """For how many seconds a scheduler has to let a task go on: enough for all that the job itself
    may want, which keeps its own time; None for any length."""
    spans = []
    if plan.timeout is not None:
        spans.append((plan.retries + 1) * (plan.timeout + plan.grace) + preparation)
    if plan.max_duration is not None:
        spans.append(plan.max_duration + plan.grace)
    return min(spans, default=None)


def nodes_of(folder: Path) -> dict[str, int]:
    """How many nodes each task of the run in a folder takes, by its name."""
    stages = ("tasks.jsonl", "finally.jsonl")
    specs = (spec for stage in stages for spec in job_facts.read_specs(folder / stage))
    return {spec.name: spec.nodes for spec in specs}


def held(
    folder: Path,
    nodes: Mapping[str, int],
    now: float,
    seen: Callable[[Path], float | None] | None = None,
) -> Held:
    """Computes the node-seconds of the tasks of the run in a folder, by their own state files. A
    task that was cut off claims for ever that it runs: `seen`, called with a task's folder, returns
    when it was last there."""
    total, going = 0.0, 0.0
    for name, whole in nodes.items():
        state = state_files.read_task(folder / "tasks" / name)
        if state is None:
            continue
        count = whole * min(1.0, state.part or 1.0)
        total += count * (state.held or 0.0)
        if state.state == "running" and state.started is not None and state.ended is None:
            last = now if seen is None else min(now, seen(folder / "tasks" / name) or state.started)
            total += count * max(0.0, last - state.started)
            going += count if now - last <= _SILENT else 0.0
    return Held(total, going)


def written(seconds: float) -> str:
    """A span as people write it.

    >>> written(5400.0), written(86400.0), written(1.5)
    ('90m', '1d', '1.5s')
    """
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"
