"""Columns of a list of runs: facts, parameters and metrics, to be shown and to sort by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.facts import run_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.run_state import RunState
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run

T = TypeVar("T")

# A run with its recorded state.
Found = tuple["Run", "RunState"]

# Column by fact of a run.
FACTS = {
    **{name: name for name in ("name", "state", "target", "tasks", "created", "started", "ended")},
    "id": "run_id",
    "time": "seconds",
    "tags": "tags",
    "note": "note",
    "reason": "reason",
}
_KINDS = ("metric", "param")


@dataclass(frozen=True)
class Column:
    """One column: a fact such as `time`, or `metric:NAME`, or `param:NAME`."""

    title: str

    @classmethod
    def of(cls, text: str) -> Column:
        """The column of that title; UserError where there is none."""
        kind, colon, name = text.partition(":")
        if text in FACTS or (colon and kind in _KINDS and name):
            return cls(text)
        known = [*FACTS, *(f"{each}:NAME" for each in _KINDS)]
        hint = did_you_mean(text, known) if not colon else ""
        raise UserError.of(
            "unknown-column",
            f"there is no column `{text[:60]}`",
            hint or f"columns: {', '.join(known)}",
        )

    @property
    def is_named(self) -> bool:
        """Whether it is of a metric or a parameter, which only some runs have."""
        return self.title not in FACTS

    @property
    def is_metric(self) -> bool:
        """Whether it takes what the runs have printed."""
        return self.title.startswith("metric:")

    def value(self, run: Run, status: RunState) -> Any:
        """What it shows of a run: a number, text, a list, or None.

        A metric of several tasks is the list of its lowest and highest last value; a parameter
        the list of its values, each once.
        """
        if self.title in FACTS:
            return run_facts(run, status)[FACTS[self.title]]
        from fairway_runner.runs.results import task_results  # most lists show none of it

        kind, _, name = self.title.partition(":")
        tasks = [task for task in task_results(run, status.state) if not task.is_last]
        return _metric(run, tasks, name) if kind == "metric" else _param(tasks, name)

    def ordered(self, runs: Sequence[Found], *, descending: bool = False) -> list[Found]:
        """The runs by this column; those without a value come first, either way."""
        return by_value([(self.value(*each), each) for each in runs], descending=descending)


def by_value(valued: Sequence[tuple[Any, T]], *, descending: bool = False) -> list[T]:
    """Things by the values that a column has of them; those without one come first, either way."""
    keyed = [(_key(value), each) for value, each in valued]
    there = [each for each in keyed if each[0] is not None]
    there.sort(key=lambda each: each[0] or (0, ""), reverse=descending)
    return [each for key, each in keyed if key is None] + [each for _, each in there]


def _metric(run: Run, tasks: Sequence[TaskResult], name: str) -> Any:
    if name not in run.record.metrics:
        return None
    values = [task.metrics[name] for task in tasks if name in task.metrics]
    if not values or len(tasks) == 1:
        return values[0] if values else None
    return [min(values), max(values)]


def _param(tasks: Sequence[TaskResult], name: str) -> Any:
    # repr tells 1 from true.
    values = {repr(task.params[name]): task.params[name] for task in tasks if name in task.params}
    return next(iter(values.values())) if len(values) == 1 else list(values.values()) or None


def _key(value: Any) -> tuple[int, Any] | None:
    """By what a value is sorted: numbers before text, and of several the last."""
    if isinstance(value, list) and value:
        return _key(value[-1])
    if value is None or value == []:
        return None
    if isinstance(value, bool | int | float):
        return (0, value)
    return (1, str(value).lower())
