"""Data of pages: the tasks of a run with their metrics and series, and runs side by side."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.records import section_of
from fairway_runner.quantities import format_cell, iso, seconds
from fairway_runner.runs.folder import begun_steps
from fairway_runner.runs.metrics import (
    MetricSetting,
    Series,
    all_values,
    compile_patterns,
    metric_settings,
    series,
)
from fairway_runner.runs.records import facts_in, legible_facts
from fairway_runner.runs.results import TaskResult, finite, task_results
from fairway_runner.runs.view import varying_parameters

if TYPE_CHECKING:
    from fairway_agent.metric_logs import Patterns
    from fairway_runner.jobs.job_fields import ParamValue
    from fairway_runner.runs.store import Run

MOST_CURVES = 100  # tasks whose metrics are drawn
_POINTS = 300  # points per curve
# Bytes to read of all logs for the curves, a few seconds of work; and the minimum of each.
_BUDGET, _LEAST = 64 << 20, 1 << 20


@dataclass
class Row:
    """One task on the page: the last value of each printed metric, including `nan` and infinities,
    and the finite ones as its `metrics`; `shade` is the class of its colour."""

    task: TaskResult
    printed: dict[str, float]
    metrics: dict[str, float]
    shade: str = "c0"
    series: dict[str, Series] = field(default_factory=dict)

    def name(self, params: Sequence[str]) -> str:
        """Formats the task with the parameters that distinguish it."""
        figures = ", ".join(f"{name} {format_cell(self.task.params.get(name))}" for name in params)
        return f"task {self.task.index}" + (f": {figures}" if figures else "")


@dataclass(frozen=True)
class Report:
    """A run as its page shows it; `coloured_by` names the metric that more than 8 tasks show."""

    run: Run
    rows: list[Row]
    last: TaskResult | None
    params: list[str]
    metrics: list[str]
    settings: dict[str, MetricSetting]
    coloured_by: str | None
    provenance: dict[str, Any]
    job: dict[str, Any]

    @property
    def drawn(self) -> list[Row]:
        """Tasks whose metrics are drawn."""
        return [row for row in self.rows if row.series]

    @property
    def fixed(self) -> dict[str, ParamValue]:
        """Parameters with the same value in all tasks."""
        known = self.rows[0].task.params if self.rows else {}
        return {name: value for name, value in known.items() if name not in self.params}

    @property
    def nodes(self) -> bool:
        """True if the nodes of tasks are known."""
        return any(row.task.node for row in self.rows)

    @property
    def reasons(self) -> bool:
        """True if some tasks have a reason for waiting or failing."""
        return any(row.task.reason for row in self.rows)

    def values(self, metric: str) -> list[float]:
        """Returns the last values of a metric."""
        return [row.metrics[metric] for row in self.rows if metric in row.metrics]


CATEGORIES = 8
SHADES = 7


def read(run: Run) -> Report:
    """Reads everything that the page shows of the run."""
    tasks = task_results(run)
    patterns = compile_patterns(run.record.metrics)
    known = [(task, task.last_values(patterns)) for task in tasks if not task.is_last]
    rows = [Row(task, values, finite(values)) for task, values in known]
    metrics = [name for name in patterns if any(name in row.printed for row in rows)]
    ended = [name for name in metrics if any(name in row.metrics for row in rows)]
    key = ended[0] if ended and len(rows) > CATEGORIES else None
    settings = metric_settings(run.folder, run.record.metrics)
    # By rank instead of value: most tasks of a sweep have similar values.
    values = sorted(row.metrics[key] for row in rows if key in row.metrics)
    for index, row in enumerate(rows):
        if key in row.metrics:
            row.shade = f"q{bisect_left(values, row.metrics[key]) * SHADES // len(values)}"
        else:
            row.shade = "cx" if len(rows) > CATEGORIES else f"c{index}"
    _read_series(run, rows, key, patterns, settings)
    return Report(
        run=run,
        rows=rows,
        last=next((task for task in tasks if task.is_last), None),
        params=varying_parameters([row.task.params for row in rows]),
        metrics=metrics,
        settings=settings,
        coloured_by=key,
        provenance=legible_facts(run.folder / "provenance.json"),
        job=legible_facts(run.folder / "job.json"),
    )


def _read_series(
    run: Run,
    rows: list[Row],
    key: str | None,
    patterns: Patterns,
    settings: dict[str, MetricSetting],
) -> None:
    """Reads the series of the rows that are drawn: all, or some, evenly over the values."""
    steps = {name: setting.step for name, setting in settings.items()}
    drawn = [row for row in rows if row.printed]
    if key is not None:
        drawn.sort(key=lambda row: row.metrics.get(key, math.inf))
    if len(drawn) > MOST_CURVES:
        step = (len(drawn) - 1) / (MOST_CURVES - 1)
        drawn = [drawn[round(number * step)] for number in range(MOST_CURVES)]
    budget = max(_LEAST, _BUDGET // max(1, len(drawn)))
    for row in drawn:
        row.series = series(run.log(row.task.index), patterns, _POINTS, steps, budget)


# Fields of a job that repeat other parts of a record, or follow from its parameters.
_LEFT_OUT = frozenset({"name", "tags", "note", "notify", "command", "params", "metrics", "sweep"})


def compare(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns a record for each task of the runs, in order, without `finally:`. A run with steps is
    replaced by those of its steps that have begun. `differs` has the parameters and fields of the
    job, by their dotted paths, that are not equal in all of them; `metrics` the last, lowest and
    highest value of each, None in place of a last one that is not finite; `commit` is that of the
    job's repository, `dirty` True if files differed from it. Raises UserError for an unreadable
    run."""
    single = [each for run in runs for each in (begun_steps(run) or [run])]
    unique = list({run.id: run for run in single}.values())
    tasks = [(run, task) for run in unique for task in task_results(run) if not task.is_last]
    jobs = {
        run.id: {
            path: value
            for name, given in facts_in(run.folder / "job.json").items()
            if name not in _LEFT_OUT
            for path, value in _flat(name, given)
        }
        for run in unique
    }
    settings = [_settings(task, jobs[run.id]) for run, task in tasks]
    names = varying_parameters(settings) if settings else []
    origins = {
        run.id: section_of(facts_in(run.folder / "provenance.json"), "git") for run in unique
    }
    records: list[dict[str, Any]] = []
    for (run, task), each in zip(tasks, settings, strict=True):
        patterns = compile_patterns(run.record.metrics)
        found = all_values(run.log(task.index), patterns) if patterns else {}
        facts = {
            "run_id": run.id,
            "task": task.index,
            "sweep": run.is_sweep,
            "name": run.record.name,
            "target": run.record.target,
            "state": task.state,
            "created": iso(run.record.created),
            "seconds": seconds(task.state, task.started, task.ended),
            "params": task.params,
            "metrics": {
                name: {
                    kind: value if math.isfinite(value) else None
                    for kind, value in asdict(values).items()
                }
                for name, values in found.items()
            },
            "commit": origins[run.id].get("commit"),
            "dirty": bool(origins[run.id].get("dirty")),
            "differs": {name: each[name] for name in names if name in each},
        }
        records.append(facts)
    return records


def _settings(task: TaskResult, job: dict[str, ParamValue]) -> dict[str, ParamValue]:
    fields = {**job, "nodes": task.nodes, "processes_per_node": task.processes_per_node}
    params = {f"params.{n}" if n in fields else n: value for n, value in task.params.items()}
    return {**params, **fields, "target": task.run.record.target}


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Flattens a value into its path, or a mapping into the paths of its values."""
    if not isinstance(value, dict):
        yield path, value
        return
    for name, each in value.items():
        yield from _flat(f"{path}.{name}", each)
