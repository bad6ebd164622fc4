"""The limits of a run as a whole: how long it may take, and what it may cost.

Whatever watches a run asks here, with what it knows: since when the run goes on, and what of nodes
it has held. Where no program is always running each task watches: it ends itself, and the first
that finds a limit exceeded cancels the run's other jobs.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, state_files
from fairway_agent.quick import dataclass
from fairway_agent.state_files import Over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fairway_agent.control import Control
    from fairway_agent.spec import RunPlan

_SILENT = 60.0  # seconds after which a task that says nothing is not there any more


@dataclass(frozen=True, slots=True)
class Held:
    """A run's use until now, in node-seconds, and the number of `nodes`, or parts, that it has."""

    seconds: float = 0.0
    nodes: float = 0


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
    """Number of nodes that each task of the run in a folder takes, by the task's name."""
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


_SOONEST = 10.0  # seconds between two looks at what the other tasks hold
_LATEST = 3600.0


@dataclass
class Watch:
    """The limits of one submission of a run; `due` is when to look next, on the clock, or None.
    `record` is the folder with the run's record, where its tasks do not write into that."""

    folder: Path
    plan: RunPlan
    submission: int
    started: float | None = None
    due: float | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    record: Path | None = None

    def begin(self) -> None:
        """A task begins; the run has begun with its first."""
        if not self.plan.is_limited:
            return
        with control.locked(self.folder):
            self.started = self._control.started
            if self.started is None:
                self.started = time.time()
                control.change(self.folder, self.submission, started=self.started)
        self.due = self.started

    def is_over(self) -> bool:
        """Returns True if the run is over a limit; checks that when it is due."""
        return self.due is not None and time.time() >= self.due and self._look()

    def look_back(self) -> bool:
        """Checks the limits when no task runs that could; not of a run that has not started."""
        self.started = self._control.started if self.plan.is_limited else None
        return self.started is not None and self._look()

    @property
    def over(self) -> Over | None:
        """The limit that it is over, as far as somebody has seen that."""
        return self._control.limit

    def held(self, now: float) -> Held:
        return held(self.folder, self.nodes, now)

    @property
    def _control(self) -> Control:
        return control.read(self.folder).of(self.submission)

    def _look(self) -> bool:
        if self.over is not None:
            return True
        now, use = time.time(), Held()
        if self.plan.max_cost is not None:
            self.nodes = self.nodes or nodes_of(self.record or self.folder)
            use = self.held(now)
        found = over(self.plan, now, self.started, use)
        if found is None:
            self.due = self._next(now, use)
            return False
        with suppress(OSError):  # where the disk is full, each task sees it by itself
            control.change(self.folder, self.submission, limit=found)
        self.take_back()
        return True

    def _next(self, now: float, use: Held) -> float | None:
        """Time of the next look: not before all nodes of the partition could reach the limit."""
        end, budget = due(self.plan, now, self.started, use), self.plan.max_cost
        if budget is None:
            return end
        target = job_facts.of_target(self.record or self.folder)
        most = max(1, target.most_nodes, use.nodes)
        pause = max(0.0, budget.node_seconds - use.seconds) / most
        look = now + min(max(pause, _SOONEST), _LATEST)
        return look if end is None else min(look, end)

    def take_back(self) -> None:
        """Has the scheduler forget the jobs of the run that wait, where that can be told of it.
        What is about to begin sees by itself that it must not."""
