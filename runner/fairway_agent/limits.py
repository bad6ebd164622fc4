"""Limits of a run in time and cost, and how long a task's GPUs may be idle.

Whatever watches a run asks here, and passes since when the run is active and how many node-seconds
it has used. If no program runs all the time, each task watches: it ends itself, and the first task
that finds a limit exceeded cancels the run's other jobs.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, InvalidRecord
from fairway_agent.sampler import SLOWER
from fairway_agent.state_files import ExceededLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_agent.control import Control
    from fairway_agent.spec import IdleGpu, RunPlan

_SILENT = 60.0  # seconds until a silent task counts as gone


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A run's use so far, in node-seconds, and how many `nodes`, or fractions, it holds."""

    seconds: float = 0.0
    nodes: float = 0


def exceeded_limit(
    plan: RunPlan, now: float, started: float | None, usage: NodeUsage
) -> ExceededLimit | None:
    """Returns the limit that a run has exceeded, or None; None also before it has begun."""
    if started is None:
        return None
    most, budget = plan.max_duration, plan.max_cost
    if most is not None and now >= started + most:
        return ExceededLimit(
            "max_duration", f"it was over its max_duration of {format_duration(most)}"
        )
    if budget is not None and usage.seconds >= budget.node_seconds:
        return ExceededLimit("max_cost", f"it was over its max_cost of {budget.text}")
    return None


def due(plan: RunPlan, now: float, started: float | None, usage: NodeUsage) -> float | None:
    """Returns when the run will exceed a limit if it keeps its nodes; None for never."""
    if started is None:
        return None
    found = [] if plan.max_duration is None else [started + plan.max_duration]
    if plan.max_cost is not None and usage.nodes:
        found.append(now + max(0.0, plan.max_cost.node_seconds - usage.seconds) / usage.nodes)
    return min(found, default=None)


def scheduler_limit(plan: RunPlan, preparation: float) -> float | None:
    """Returns the time limit in seconds to set at a scheduler: enough for all that the job, which
    keeps its own time, may use. None for no limit."""
    spans = []
    if plan.timeout is not None:
        spans.append((plan.retries + 1) * (plan.timeout + plan.grace) + preparation)
    if plan.max_duration is not None:
        spans.append(plan.max_duration + plan.grace)
    return min(spans, default=None)


def nodes_of(folder: Path) -> dict[str, int]:
    """Returns how many nodes each task of the run in a folder takes, by the task's name."""
    stages = ("tasks.jsonl", "finally.jsonl")
    specs = (spec for stage in stages for spec in job_facts.read_specs(folder / stage))
    return {spec.name: spec.nodes for spec in specs}


def node_seconds(
    folder: Path,
    nodes: Mapping[str, int],
    now: float,
    seen: Callable[[Path], float | None] | None = None,
) -> NodeUsage:
    """Computes the node-seconds used by the tasks of the run in a folder, from their state files.
    The state of a task that was killed says "running" for ever: `seen`, called with a task's
    folder, returns when it last showed a sign of life."""
    total, active = 0.0, 0.0
    for name, number in nodes.items():
        state = state_files.read_task(folder / "tasks" / name)
        if state is None:
            continue
        count = number * min(1.0, state.node_fraction or 1.0)
        total += count * (state.held or 0.0)
        if state.state == "running" and state.started is not None and state.ended is None:
            last = now if seen is None else min(now, seen(folder / "tasks" / name) or state.started)
            total += count * max(0.0, last - state.started)
            active += count if now - last <= _SILENT else 0.0
    return NodeUsage(total, active)


def format_duration(seconds: float) -> str:
    """Formats a duration for people.

    >>> format_duration(5400.0), format_duration(86400.0), format_duration(1.5)
    ('90m', '1d', '1.5s')
    """
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"


_SOONEST = 10.0  # seconds between two checks of what other tasks use
_LATEST = 3600.0


@dataclass
class Watch:
    """Watches the limits of one submission of a run. `due` is the time of the next check, or None.
    `record` is the folder with the run's record, if its tasks write their states elsewhere."""

    folder: Path
    plan: RunPlan
    submission: int
    started: float | None = None
    due: float | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    record: Path | None = None

    def begin(self) -> None:
        """Records the start of a limited run, which is that of its first task."""
        if not self.plan.is_limited:
            return
        with control.locked(self.folder):
            self.started = self._control.started
            if self.started is None:
                self.started = time.time()
                control.change(self.folder, self.submission, started=self.started)
        self.due = self.started

    def is_over(self) -> bool:
        """Returns True if the run has exceeded a limit; checks only when that is due."""
        return self.due is not None and time.time() >= self.due and self._look()

    def look_back(self) -> bool:
        """Returns True if the run has exceeded a limit, checked while no task runs to do so; False
        for a run that has not started."""
        self.started = self._control.started if self.plan.is_limited else None
        return self.started is not None and self._look()

    @property
    def over(self) -> ExceededLimit | None:
        """Limit that the run has exceeded, as recorded by whatever noticed it first."""
        return self._control.limit

    def usage(self, now: float) -> NodeUsage:
        return node_seconds(self.folder, self.nodes, now)

    @property
    def _control(self) -> Control:
        return control.read(self.folder).of(self.submission)

    def _look(self) -> bool:
        if self.over is not None:
            return True
        now, use, budget = time.time(), NodeUsage(), self.plan.max_cost
        if budget is not None:
            self.nodes = self.nodes or nodes_of(self.record or self.folder)
            use = self.usage(now)
        if (found := exceeded_limit(self.plan, now, self.started, use)) is not None:
            with suppress(OSError):  # if the disk is full, each task detects it by itself
                control.change(self.folder, self.submission, limit=found)
            self.take_back()
            return True
        self.due = due(self.plan, now, self.started, use)
        if budget is not None:
            # No earlier than all nodes of the partition could reach the limit.
            most = max(1, job_facts.of_target(self.record or self.folder).most_nodes, use.nodes)
            pause = max(0.0, budget.node_seconds - use.seconds) / most
            look = now + min(max(pause, _SOONEST), _LATEST)
            self.due = min(look, self.due or look)
        return False

    def take_back(self) -> None:
        """Removes the run's pending jobs from the scheduler, if it allows that. A job that is just
        starting sees by itself that it must not."""


_MOST = 1 << 20  # bytes of samples read at once; a sample of sixteen GPUs has 2,000
_SOONEST_LOOK = 1.0  # seconds between two reads
_GAPS = 3  # longest intervals; after a longer gap, usage between two samples is unknown


@dataclass
class _Lines:
    """Lines appended to a file from now on; earlier ones belong to another attempt."""

    file: Path
    at: int = 0

    def __post_init__(self) -> None:
        with suppress(OSError):
            self.at = self.file.stat().st_size

    def new(self) -> Iterator[bytes]:
        with suppress(OSError), self.file.open("rb") as file:
            file.seek(self.at)
            while data := file.read(_MOST):
                end = data.rfind(b"\n") + 1
                if not end and len(data) < _MOST:
                    return  # the line is still being written
                # A line longer than any sample is invalid.
                self.at += end or len(data)
                file.seek(self.at)
                yield from data[:end].splitlines()


@dataclass
class IdleWatch:
    """Detects that the GPUs of an attempt have been idle for as long as its job allows. All times
    are those of the samples: without new samples nothing is known, and the task counts as busy.

    `folder` has the samples of the `nodes`, taken every `seconds`; `gpus` are the numbers of the
    task's GPUs on its node, or None for all. `due` is the time of the next check on the monotonic
    clock, and `is_idle` the last result. If the nodes share no folder, `printed` is the file with
    all samples, each of which names its node; only the number of `nodes` is known then.
    """

    limit: IdleGpu
    folder: Path
    nodes: Sequence[str]
    gpus: Sequence[int] | None
    seconds: float
    due: float
    printed: Path | None = None
    is_idle: bool = False
    _lines: dict[str, _Lines] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)  # time of each node's last sample
    _since: dict[str, float] = field(default_factory=dict)  # since when its GPUs have been idle

    def __post_init__(self) -> None:
        if self.printed is not None:
            self._lines = {"": _Lines(self.printed)}
        else:
            self._lines = {name: _Lines(self.folder / f"{name}.jsonl") for name in self.nodes}
        self.due += self.limit.seconds

    @property
    def reason(self) -> str:
        span = format_duration(self.limit.seconds)
        return f"its GPUs were below {self.limit.below:g} % for {span}"

    def look(self, now: float) -> bool:
        """Returns True if the GPUs are idle; `now` is the time on the monotonic clock."""
        for name, lines in self._lines.items():
            for line in lines.new():
                self._take(name, line)
        lasted = None  # seconds that all nodes were idle together
        wanted = len(self._lines if self.printed is None else self.nodes)
        if self._since and len(self._since) >= max(wanted, len(self._last)):
            lasted = min(self._last.values()) - max(self._since.values())
        self.is_idle = lasted is not None and lasted >= self.limit.seconds
        left = 0.0 if self.is_idle else self.limit.seconds - max(0.0, lasted or 0.0)
        self.due = now + max(left, self.seconds, _SOONEST_LOOK)
        return self.is_idle

    def _take(self, name: str, line: bytes) -> None:
        with suppress(ValueError, RecursionError, InvalidRecord):  # the disk was full
            sample = Fields(json.loads(line), "a sample")
            node = name or sample.text("node")
            moment, found = sample.span("time"), dict[int, float | None]()
            for each in sample.each("gpus"):
                gpu = Fields(each, "a GPU")
                found[gpu.count("index")] = gpu.or_none("use", gpu.span)
            own = found.keys() if self.gpus is None else self.gpus
            uses = [found.get(index) for index in own]
            # Idle only if every GPU's use is known.
            is_busy = any(use is None or round(use * 100, 3) >= self.limit.below for use in uses)
            pause = moment - self._last.get(node, moment)
            if not uses or is_busy:
                self._since.pop(node, None)
            elif node not in self._since or not 0 <= pause <= _GAPS * SLOWER * self.seconds:
                self._since[node] = moment
            self._last[node] = moment
