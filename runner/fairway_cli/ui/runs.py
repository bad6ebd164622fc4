"""Runs, tasks and points on a terminal: tables, one run's overview, and comparisons."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_cli.ui.columns import state as coloured
from fairway_cli.ui.costs import cost_line
from fairway_core.findings import printable
from fairway_runner.quantities import duration, format_cell, number
from fairway_runner.runs.view import BEST, varying_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_runner.runs.view import RunView

# Columns that every table of runs has.
_SHOWN = ("id", "state", "target", "tasks", "created", "time", "tags")
# Nobody reads more lines than this.
_MOST_POINTS = 1000


def run_table(runs: Sequence[dict[str, Any]]) -> str:
    more = [name for name in (runs[0].get("columns", {}) if runs else {}) if name not in _SHOWN]
    # Metrics and parameters keep their names; facts are upper case.
    titles = [name.partition(":")[2] or name.upper() for name in more]
    header = ("RUN", "STATE", "TARGET", "TASKS", "CREATED", "TIME", "TAGS", *titles)
    rows = [
        (
            run["run_id"],
            run["state"],
            run["target"],
            str(run["tasks"]),
            (run["created"] or "").replace("T", " ").removesuffix("Z"),
            duration(run["seconds"]),
            " ".join(run["tags"]),
            *(_cell(name, run["columns"][name]) for name in more),
        )
        for run in runs
    ]
    return columns(header, rows)


def task_table(tasks: list[dict[str, Any]], params: Sequence[str], metrics: Sequence[str]) -> str:
    known = ("node", "gpus", "cores", "reason")
    more = [name for name in known if any(task[name] for task in tasks)]
    titles = [name.upper() for name in more]
    header = ("TASK", *params, "STATE", "EXIT", "ATTEMPTS", "TIME", *metrics, *titles)
    rows = []
    for task in tasks:
        code, attempts = task["exit_code"], task["attempts"]
        rows.append(
            (
                str(task["task"]),
                *(
                    format_cell(None if task["last"] else task["params"].get(name))
                    for name in params
                ),
                task["state"],
                "" if code is None else f"{code} (timeout)" if task["timed_out"] else str(code),
                str(attempts) if attempts > 1 else "",
                duration(task["seconds"]),
                *(number(task["metrics"].get(name)) for name in metrics),
                *(task[name] or "" for name in more),
            )
        )
    return columns(header, rows)


def print_points(points: list[dict[str, Any]]) -> None:
    """Prints the parameters that all points share, and a line with the others for each of the first
    1000 points."""
    names = _print_shared([point["params"] for point in points])
    rows = [
        (str(point["index"]), *(format_cell(point["params"].get(name)) for name in names))
        for point in points[:_MOST_POINTS]
    ]
    print(columns(("TASK", *names), rows))
    if len(points) > _MOST_POINTS:
        print(f"… and {len(points) - _MOST_POINTS:,} more; all of them: --json")


def _print_shared(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Prints the parameters that are the same everywhere; returns the names of the others."""
    names = varying_parameters(points)
    if fixed := [f"{name}={format_cell(v)}" for name, v in points[0].items() if name not in names]:
        print(f"params  {printable(' '.join(fixed))}")
    return names


def _cell(column: str, value: Any) -> str:
    if column.startswith("metric:"):
        return " … ".join(map(number, value if isinstance(value, list) else [value]))
    if column == "time":
        return duration(value)
    return " ".join((value if isinstance(value, str) else format_cell(value)).splitlines())


def print_overview(view: RunView, tasks: Sequence[Any], limit: int) -> None:
    """Prints the run without its tasks, and the first `limit` of them; 0 is all."""
    facts = view.head
    took = duration(facts["seconds"])
    name, target = printable(facts["run_id"]), printable(facts["target"])
    print(f"{name}  {coloured(printable(facts['state']))}  on {target}  {took}".rstrip())
    for title, words in _remarks(facts, tasks):
        print(f"{title:<8}{printable(words)}")
    if (setup := facts["setup"]) is not None:
        code = f", exit code {setup['exit_code']}" if setup["exit_code"] else ""
        state = coloured(printable(setup["state"]))
        print(f"setup   {state}{code}  {duration(setup['seconds'])}".rstrip())
    names = _print_shared([task.params for task in tasks if not task.is_last] or [{}])
    print()
    if not tasks:
        print("no such task")
        return
    some = tasks[:limit] if limit else tasks
    rows = view.rows(some)
    print(task_table(rows, names, facts["metrics"]))
    for fault in dict.fromkeys(row.get("metrics_fault") for row in rows):  # older servers lack it
        if fault:
            print(printable(fault))
    if len(some) < len(tasks):
        print(f"… and {len(tasks) - len(some):,} more; all of them: --limit 0")


def _remarks(facts: Mapping[str, Any], tasks: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yields titles and words: why the run is in its state, its origin, labels, use and files."""
    if facts["reason"]:
        yield "reason", facts["reason"]
    for target, reason in facts["passed_over"].items():
        yield "passed", f"{target}: {reason}"
    for name, kept in facts["inputs"].items():
        task, by = "the best task" if kept["task"] == BEST else f"task {kept['task']}", ""
        if metric := kept.get("metric"):
            by = f" (by {metric})" if kept["value"] is None else f" ({metric}={kept['value']:g})"
        yield "input", f"{name}: {kept['output']} of {task} of {kept['run']}{by}"
    for each in facts.get("actions", ()):  # an older server may have none
        yield "by", f"{each['by']}, {each['at']}: {each['action']}"
    if facts["tags"]:
        yield "tags", " ".join(facts["tags"])
    for line in facts["note"].splitlines():
        yield "note", line
    spent = {"cost": cost_line(facts["cost"]), "use": facts["use"], "tries": _ends(tasks)}
    yield from ((title, words) for title, words in spent.items() if words)
    yield from (("job", facts["job_file"]), ("folder", facts["folder"]))
    if facts["tasks"] > 1:
        counts = [f"{count:,} {state}" for state, count in facts["task_states"].items()]
        yield "tasks", ", ".join(counts) or str(facts["tasks"])


_CAUSES = {
    "error": ("an error", "errors"),
    "node": ("a lost node", "lost nodes"),
    "preemption": ("a preemption", "preemptions"),
}


def _ends(tasks: Sequence[Any]) -> str:
    """Formats the causes for which attempts of restarted tasks ended; "" for none."""
    found: Counter[str] = Counter()
    for task in tasks:
        if task.attempts > 1:
            found.update(task.failures_by_cause)
    words = [
        one if found[cause] == 1 else f"{found[cause]:,} {many}"
        for cause, (one, many) in _CAUSES.items()
        if found[cause]
    ]
    return f"ended by {', '.join(words)}" if words else ""


Record = dict[str, Any]

_FACTS = ("run_id", "task", "name", "target", "state", "created", "seconds", "commit", "dirty")


def comparison_table(records: Sequence[Record]) -> str:
    """Returns a line for each task; lowest and highest values only if some are not the last."""
    names = _differing(records)
    values = [
        (metric, kind)
        for metric, kind in _values(records)
        if kind == "last"
        or any(_value(each, metric, kind) != _value(each, metric, "last") for each in records)
    ]
    titles = [_comparison_title(*each) for each in values]
    rows = [
        (
            f"{each['run_id']}/{each['task']}" if each["sweep"] else each["run_id"],
            *(format_cell(each["differs"].get(name)) for name in names),
            each["state"],
            duration(each["seconds"]),
            *(number(_value(each, *value)) for value in values),
            (each["commit"] and each["commit"][:10] + "+" * each["dirty"]) or "",
        )
        for each in records
    ]
    return columns(("RUN", *names, "STATE", "TIME", *titles, "COMMIT"), rows)


def write_csv(records: Sequence[Record]) -> None:
    names, values = _differing(records), _values(records)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*_FACTS, *names, *(_comparison_title(*each) for each in values)])
    for each in records:
        facts = [str(each[name]).lower() if name == "dirty" else each[name] for name in _FACTS]
        cells = [format_cell(each["differs"].get(name)) for name in names]
        writer.writerow([*facts, *cells, *(_value(each, *value) for value in values)])


def _differing(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for each in records for name in each["differs"]))


def _values(records: Sequence[Record]) -> list[tuple[str, str]]:
    metrics = dict.fromkeys(name for each in records for name in each["metrics"])
    return [(name, kind) for name in metrics for kind in ("last", "lowest", "highest")]


def _value(record: Record, metric: str, kind: str) -> float | None:
    found: float | None = record["metrics"].get(metric, {}).get(kind)
    return found


def _comparison_title(metric: str, kind: str) -> str:
    return metric if kind == "last" else f"{kind} {metric}"
