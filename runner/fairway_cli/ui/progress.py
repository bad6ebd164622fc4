"""A run of many tasks while it goes on: a bar on a terminal, a line a finished task elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from fairway_cli.ui.columns import state as coloured
from fairway_cli.ui.follow import Remarks
from fairway_runner.engines.absence import Absence
from fairway_runner.quantities import duration, number
from fairway_runner.runs.metrics import compile_patterns, last_values
from fairway_runner.runs.results import task_results
from fairway_runner.runs.varying import shown, varying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_agent.task_state import TaskState
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def watch_tasks(run: Run, out: TextIO) -> None:
    """Says of each task that it has ended, until the run has; and on standard error, unless that is
    `out` itself, what the run waits for."""
    tasks = task_results(run)
    names = varying([task.params for task in tasks if not task.is_last])
    with _reporter(run, len(tasks), out) as report:
        remarks = None if out is sys.stderr else Remarks(run)
        for task, status in _ends(run, tasks, remarks):
            report(status.state, _line(task, status, names, out))


def _ends(
    run: Run, tasks: list[TaskResult], remarks: Remarks | None
) -> Iterator[tuple[TaskResult, TaskState]]:
    """The tasks as they end, with their last state."""
    open_, absence = list(tasks), Absence(run, run.engine.deadline)
    seen: object = None
    while True:
        absence.look(lambda: run.follow(logs=bool(run.record.metrics)))
        status = run.status
        ended = status.is_final
        if remarks is not None and not ended:
            remarks.look()
        counts = status.tasks
        if ended or counts != seen:
            seen = counts
            left = []
            for position, task in enumerate(open_):
                # Tasks begin in their order: nothing of those behind this one has begun.
                if not ended and not (run.task_folder(task.index) / "state.json").exists():
                    left += open_[position:]
                    break
                found = run.task_status(task.index, status.state)
                if found.is_final:
                    yield task, found
                else:
                    left.append(task)
            open_ = left
        if ended:
            return
        time.sleep(run.engine.pause)


def _line(task: TaskResult, status: TaskState, names: list[str], out: TextIO) -> str:
    own = {} if task.is_last else task.params
    params = [f"{n}={shown(own[n])}" for n in names if n in own]
    patterns = compile_patterns(task.run.record.metrics)
    values = last_values(task.run.log(task.index), patterns) if patterns else {}
    metrics = [f"{name}={number(value)}" for name, value in values.items()]
    words = [f"[{task.name}]", coloured(status.state, out), *params, *metrics]
    if status.exit_code:
        words.append(f"exit code {status.exit_code}")
    if status.started and status.ended:
        words.append(duration(status.ended - status.started))
    return " ".join(words)


@contextmanager
def _reporter(run: Run, count: int, out: TextIO) -> Iterator[Callable[[str, str], None]]:
    if not out.isatty():
        yield lambda _, line: print(line, file=out, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=out)) as progress:
        bar = progress.add_task(run.id, total=count, failed="")
        failed = 0

        def report(state: str, line: str) -> None:
            nonlocal failed
            failed += state != "succeeded"
            progress.console.print(Text.from_ansi(line))
            progress.update(bar, advance=1, failed=f"{failed} failed" if failed else "")

        yield report
    out.flush()
