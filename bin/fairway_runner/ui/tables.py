"""Runs and tasks as tables; colours only on a terminal, and none where NO_COLOR is set."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_COLOURS = {
    "queued": "dim",
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "lost": "magenta",
}


def print_runs(runs: list[dict[str, Any]]) -> None:
    """A line a run, the newest last."""
    table = _table("RUN", "STATE", "TARGET", "TASKS", "CREATED", "TIME")
    for run in runs:
        table.add_row(
            run["run_id"],
            _state(run["state"]),
            run["target"],
            str(run["tasks"]),
            _moment(run["created"]),
            duration(run["seconds"]),
        )
    _print(table)


def print_tasks(tasks: list[dict[str, Any]]) -> None:
    """A line a task."""
    table = _table("TASK", "STATE", "EXIT", "TIME", "LOG")
    for task in tasks:
        code = task["exit_code"]
        table.add_row(
            str(task["task"]),
            _state(task["state"]),
            "" if code is None else str(code),
            duration(task["seconds"]),
            task["log"],
        )
    _print(table)


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(3.21), duration(75), duration(7384), duration(None)
    ('3.2s', '1m15s', '2h03m', '')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # Nothing is cut off in a file or a pipe.
        console.width = 10_000
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _moment(iso: str | None) -> str:
    return (iso or "").replace("T", " ").removesuffix("Z")
