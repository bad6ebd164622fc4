"""Results of a run's tasks: parameters, states and last metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from fairway_agent.metric_logs import best_of, diverged_words
from fairway_agent.outputs import empty_message
from fairway_agent.quick import dataclass
from fairway_agent.spec import LAST, TaskSpec
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.folder import require_one_job
from fairway_runner.runs.metrics import (
    axis_of,
    compile_patterns,
    last_values,
    metric_settings,
    series,
)
from fairway_runner.runs.records import damaged, read_last, read_specs

if TYPE_CHECKING:
    from fairway_agent.metric_logs import Patterns
    from fairway_runner.jobs.job_fields import ParamValue
    from fairway_runner.runs.folder import RunFolder

# Fields of a task's state that its result repeats.
_COPIED = ("state", "exit_code", "attempts", "started", "ended", "node", "held", "gpus", "cores")
# The metrics of a task that failed, or was ended, are no results.
_COUNTED = ("succeeded", "running")


@dataclass(frozen=True)
class TaskResult:
    """One task and where it stands; times are in seconds since 1970.

    `attempts` counts those that were begun, `timed_out` is about the last of them. `is_last`
    marks the job's `finally:`, which runs after all others and has the last `index`. `node` and
    `reason` are an engine's own words, where it has them: where the task runs, and why it waits or
    failed. `held` is for how many seconds its attempts that have ended had their nodes, where that
    is recorded; `ends` counts attempts that did not end well, by their cause.
    `gpus` and `cores` are the numbers of those that it has of a node that others use too, such as
    `0-2,5`, and `part` how large a part of the node that is. `empty_outputs` names its outputs
    without a file, once it has succeeded.
    """

    run: RunFolder
    index: int
    state: str
    params: Mapping[str, ParamValue]
    nodes: int
    processes_per_node: int
    exit_code: int | None
    attempts: int
    started: float | None
    ended: float | None
    timed_out: bool
    is_last: bool = False
    node: str | None = None
    reason: str | None = None
    held: float | None = None
    failures_by_cause: Mapping[str, int] = field(default_factory=dict)
    gpus: str | None = None
    cores: str | None = None
    node_fraction: float | None = None
    empty_outputs: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Name of the task: its number, or `finally`."""
        return LAST if self.is_last else str(self.index)

    @property
    def world_size(self) -> int:
        """Number of its ranks."""
        return self.nodes * self.processes_per_node

    def require_place(self, rank: int | None, node: int | None) -> None:
        """Raises UserError for a rank or a node that it does not have."""
        if rank is not None and not 0 <= rank < self.world_size:
            message = f"{self.run.id} has no rank {rank}"
            raise UserError.of("unknown-rank", message, f"its ranks are 0 to {self.world_size - 1}")
        if node is not None and not 0 <= node < self.nodes:
            message = f"{self.run.id} has no node {node}"
            raise UserError.of("unknown-node", message, f"its nodes are 0 to {self.nodes - 1}")

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric that its log has, unless that is `nan` or infinite."""
        return finite(self.last_values(compile_patterns(self.run.record.metrics)))

    def last_values(self, patterns: Patterns) -> dict[str, float]:
        """Returns the last value of each of these metrics, including `nan` and infinities."""
        return last_values(self.run.log(self.index), patterns) if patterns else {}

    def known_metrics(self) -> tuple[dict[str, float], str | None]:
        """Returns the metrics as `metrics` does, without those whose pattern takes too long, and
        the messages about these, None without any."""
        try:
            return self.metrics, None
        except UserError:
            found: dict[str, float] = {}
            stopped = []
        for name, pattern in compile_patterns(self.run.record.metrics).items():
            try:
                found |= finite(self.last_values({name: pattern}))
            except UserError as error:
                stopped += [each.message for each in error.findings]
        return found, "; ".join(stopped) or None

    @property
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Course of each metric in a task's log: the step of each value, and the value. Steps are
        those that a report draws, or count from 1. Of more than a thousand values some are left
        out, evenly; read anew each time."""
        patterns = compile_patterns(self.run.record.metrics)
        settings = metric_settings(self.run.folder, patterns)
        steps = {name: setting.step for name, setting in settings.items()}
        found = series(self.run.log(self.index), patterns, steps=steps)
        return {name: each.points_over(axis_of(name, [each])) for name, each in found.items()}

    @property
    def log(self) -> str:
        """Log of the task so far."""
        return self.run.log_text(self.index)


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Returns the values that are finite, as those of tasks that have not diverged are."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def task_results(run: RunFolder, run_state: str | None = None) -> list[TaskResult]:
    """Returns all tasks in order; the state may be given. Raises UserError for a damaged file."""
    state = run_state or run.state
    results = [_result(run, spec, state) for spec in _specs(run)]
    if all(each.is_last for each in results):
        raise damaged(run.folder / "tasks.jsonl", "it is empty")
    return results


def _specs(run: RunFolder) -> Iterator[TaskSpec]:
    path = run.folder / "tasks.jsonl"
    try:
        for spec in read_specs(path):
            if spec.index not in range(run.record.tasks):
                raise damaged(path, f"the run has no task {spec.name}")
            yield spec
    except FileNotFoundError:
        raise damaged(path, "missing") from None
    for spec in read_last(run.folder):
        if not spec.is_last:
            raise damaged(run.folder / "finally.jsonl", f"the run has no task {spec.name}")
        yield spec


def _result(run: RunFolder, spec: TaskSpec, state: str) -> TaskResult:
    index = run.record.tasks - 1 if spec.is_last else int(spec.index)
    status = run.task_status(index, state)
    empty = empty_message(status.empty_outputs) if status.empty_outputs else None
    return TaskResult(
        run=run,
        index=index,
        params=spec.params,
        nodes=spec.nodes,
        processes_per_node=spec.processes_per_node,
        is_last=spec.is_last,
        timed_out=bool(status.timed_out),
        reason="; ".join(filter(None, (status.reason, empty))) or None,
        failures_by_cause=status.failures_by_cause or {},
        empty_outputs=status.empty_outputs or (),
        node_fraction=status.node_fraction,
        **{name: getattr(status, name) for name in _COPIED},
    )


@dataclass(frozen=True)
class BestTask:
    """The best task by a metric, its value, and the numbers of the tasks that have diverged."""

    task: TaskResult
    metric: str
    value: float
    diverged: Sequence[int]


def best(run: RunFolder, metric: str | None, *, lowest: bool | None = None) -> BestTask:
    """Returns the task whose last value of a metric is the lowest or highest; `metric` may be
    omitted if the job has only one, and `lowest` if the job or the metric's name says which is
    better. Tasks that failed, were cancelled, lost or have diverged do not count; the first among
    equals wins. Raises UserError if there is no such task, or the choice is unclear."""
    name = metric_name(require_one_job(run).record.metrics, metric, run.id)
    if lowest is None:
        lowest = lower_is_better(run, name, "add --min or --max")
    pattern = compile_patterns({name: run.record.metrics[name]})
    tasks = {task.index: task for task in task_results(run)}
    found = [
        (value, task.index)
        for task in tasks.values()
        if task.state in _COUNTED and not task.is_last
        for value in task.last_values(pattern).values()
    ]
    first, diverged = best_of(found, lower=lowest)
    if first is None:
        lack = f"no task of {run.id} that runs or succeeded has printed `{name}`"
        said = diverged_words(name, diverged)
        message = f"{run.id} has no best task: {said}" if said else lack
        raise UserError.of("no-metric", message, f"its pattern is: {run.record.metrics[name]}")
    value, number = first
    return BestTask(tasks[number], name, value, diverged)


def lower_is_better(run: RunFolder, metric: str, hint: str) -> bool:
    """Returns True if the lowest value of a metric is the best, by the job or the metric's name.
    Raises UserError with that hint if neither says."""
    lower = metric_settings(run.folder, [metric])[metric].lower
    if lower is None:
        message = f"it is not known whether lower or higher `{metric}` is better"
        raise UserError.of("which-best", message, hint)
    return lower


def metric_name(
    known: Iterable[str], metric: str | None, called: str, option: str = "--metric"
) -> str:
    """Returns the metric of that name among the `known` ones, or the only one. Raises UserError,
    which names their owner (`called`) and the `option`, if it is unclear which."""
    names = list(known)
    if not names:
        hint = "give the job one, for example\nmetrics: {loss: 'loss=([0-9.]+)'}"
        raise UserError.of("no-metric", f"{called} has no metrics", hint)
    if metric is not None and metric not in names:
        hint = did_you_mean(metric, names) or f"it has: {', '.join(names)}"
        raise UserError.of("no-metric", f"{called} has no metric `{metric}`", hint)
    if metric is None and len(names) > 1:
        hint = f"add {option} {' or '.join(names)}"
        raise UserError.of("no-metric", f"{called} has {len(names)} metrics", hint)
    return metric or names[0]
