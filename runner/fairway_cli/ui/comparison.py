"""Runs side by side, as a table for people and as CSV for programs."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_runner.quantities import duration, number
from fairway_runner.runs.varying import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = dict[str, Any]

_FACTS = ("run_id", "task", "name", "target", "state", "created", "seconds", "commit", "dirty")


def comparison_table(records: Sequence[Record]) -> str:
    """A line a task; the lowest and highest of a metric where they are not always the last."""
    names = _differing(records)
    values = [
        (metric, kind)
        for metric, kind in _values(records)
        if kind == "last"
        or any(_value(each, metric, kind) != _value(each, metric, "last") for each in records)
    ]
    header = ("RUN", *names, "STATE", "TIME", *(_title(*each) for each in values), "COMMIT")
    rows = [
        (
            f"{each['run_id']}/{each['task']}" if each["sweep"] else each["run_id"],
            *(shown(each["differs"].get(name)) for name in names),
            each["state"],
            duration(each["seconds"]),
            *(number(_value(each, *value)) for value in values),
            _commit(each),
        )
        for each in records
    ]
    return columns(header, rows)


def write_csv(records: Sequence[Record]) -> None:
    """All of the records to standard output, a line a task."""
    names, values = _differing(records), _values(records)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*_FACTS, *names, *(_title(*each) for each in values)])
    for each in records:
        facts = [str(each[name]).lower() if name == "dirty" else each[name] for name in _FACTS]
        cells = [shown(each["differs"].get(name)) for name in names]
        writer.writerow([*facts, *cells, *(_value(each, *value) for value in values)])


def _differing(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for each in records for name in each["differs"]))


def _values(records: Sequence[Record]) -> list[tuple[str, str]]:
    metrics = dict.fromkeys(name for each in records for name in each["metrics"])
    return [(name, kind) for name in metrics for kind in ("last", "lowest", "highest")]


def _value(record: Record, metric: str, kind: str) -> float | None:
    found: float | None = record["metrics"].get(metric, {}).get(kind)
    return found


def _title(metric: str, kind: str) -> str:
    return metric if kind == "last" else f"{kind} {metric}"


def _commit(record: Record) -> str:
    commit = record["commit"]
    return f"{commit[:10]}{'+' if record['dirty'] else ''}" if commit else ""
