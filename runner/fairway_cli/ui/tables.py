"""Runs, tasks and points as columns of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_core.findings import printable
from fairway_runner.quantities import duration, number
from fairway_runner.runs.varying import shown, varying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

# More lines than this nobody reads.
_MOST_POINTS = 1000


def run_table(runs: Sequence[dict[str, Any]]) -> str:
    """A line a run, with the columns that were asked for."""
    more = list(runs[0].get("columns", {})) if runs else []
    return columns(
        ("RUN", "STATE", "TARGET", "TASKS", "CREATED", "TIME", "TAGS", *map(_title, more)),
        [
            (
                run["run_id"],
                run["state"],
                run["target"],
                str(run["tasks"]),
                _moment(run["created"]),
                duration(run["seconds"]),
                " ".join(run["tags"]),
                *(_cell(name, run["columns"][name]) for name in more),
            )
            for run in runs
        ],
    )


def task_table(
    tasks: Sequence[dict[str, Any]], params: Sequence[str], metrics: Sequence[str]
) -> str:
    """A line a task, with a column for each of these parameters and metrics."""
    more = [
        name for name in ("node", "gpus", "cores", "reason") if any(task[name] for task in tasks)
    ]
    titles = [name.upper() for name in more]
    header = ("TASK", *params, "STATE", "EXIT", "ATTEMPTS", "TIME", *metrics, *titles)
    rows = []
    for task in tasks:
        code, attempts = task["exit_code"], task["attempts"]
        rows.append(
            (
                str(task["task"]),
                *(shown(None if task["last"] else task["params"].get(name)) for name in params),
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
    """A line a point of a sweep, up to a thousand, and a column a parameter that varies."""
    names = varying([point["params"] for point in points])
    print(
        columns(
            ("TASK", *names),
            [
                (str(point["index"]), *(shown(point["params"].get(name)) for name in names))
                for point in points[:_MOST_POINTS]
            ],
        )
    )
    if len(points) > _MOST_POINTS:
        print(f"… and {len(points) - _MOST_POINTS:,} more; all of them: --json")


def new_table(*columns: str) -> Table:
    """An empty table of rich, for cells that are more than text."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Adds a row whose text stands as it is: rich takes no `[word]` of it for its own markup, and
    the terminal no control character."""
    from rich.text import Text

    table.add_row(*(Text(printable(each)) if isinstance(each, str) else each for each in cells))


def print_table(table: Table) -> None:
    """Prints it; nothing is cut off in a file or a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 10_000
    # rich would end the program with 1 where the reader of its output went away.
    with console.capture() as text:
        console.print(table)
    print(text.get(), end="")


def _title(column: str) -> str:
    """That of a column: a metric and a parameter are called as they are, a fact in capitals."""
    _, colon, name = column.partition(":")
    return name if colon else column.upper()


def _cell(column: str, value: Any) -> str:
    if column.startswith("metric:"):
        return " … ".join(map(number, value if isinstance(value, list) else [value]))
    if column == "time":
        return duration(value)
    return " ".join((value if isinstance(value, str) else shown(value)).splitlines())


def _moment(iso: str | None) -> str:
    return (iso or "").replace("T", " ").removesuffix("Z")
