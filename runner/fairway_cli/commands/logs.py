"""`fairway logs`: what a run printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, RunArgument, TaskOption

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def command(
    run: RunArgument,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Follow the log until the run has ended.")
    ] = False,
    task: TaskOption = None,
    rank: Annotated[
        int | None, Option("--rank", min=0, help="Only this rank, if the log names ranks.")
    ] = None,
    node: Annotated[
        int | None, Option("--node", min=0, help="Only the ranks of this node, from 0.")
    ] = None,
    attempt: Annotated[
        int | None, Option("--attempt", min=1, help="Only this attempt of each task, from 1.")
    ] = None,
    tail: Annotated[
        int | None,
        Option("--tail", "-n", metavar="N", min=0, help="Only the last N lines of each log."),
    ] = None,
    grep: Annotated[
        str | None,
        Option("--grep", metavar="PATTERN", help="Only lines that match this regular expression."),
    ] = None,
    json_: Annotated[
        bool, Option("--json", help="Print JSON: one object per line of the log.")
    ] = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Print what a run printed; lines of several tasks begin with the task, as [3].

    A log of several ranks names them where the launcher can: lines begin with the
    rank, or with task and rank, as [3.1], each in a colour of its own on a terminal. --tail takes
    the last lines of what the other options leave.
    With --json each line is an object with `task`, `attempt`, `rank` and `text`.
    An attempt that is not the first begins with a line that says why there is another.
    Where its target does not answer, what is known here is printed, and the exit code is 5; with
    --follow it is asked again until the deadline.
    """
    from fairway_cli.server import run_store
    from fairway_cli.ui.columns import has_colours
    from fairway_cli.ui.follow import Shape, copy_logs
    from fairway_cli.ui.progress import EXIT_CODE, is_away
    from fairway_runner.runs.log_lines import (
        Selection,
        names_ranks,
        pattern,
        ranks_wanted,
        require_attempt,
        task_numbers,
    )

    expression = pattern(grep)
    found = run_store().find(run)
    # Who follows looks again and again. What is printed of a rank is looked for in the log.
    looks = not follow or rank is not None or node is not None
    away = looks and is_away(found, lambda: found.refresh(logs=True))
    named = names_ranks(found)
    several = named or (task is None and found.record.tasks > 1)
    coloured = several and not json_ and has_colours()
    ranks = ranks_wanted(found, task, rank, node)
    selection = Selection.of(found, task, ranks=ranks, attempt=attempt, grep=expression, tail=tail)
    if attempt is not None and not follow:
        require_attempt(found, task_numbers(found, task), attempt)
    shape = Shape(coloured, named, json_)
    copy_logs(found, selection, sys.stdout.buffer, shape, follow=follow)
    if follow:
        _require_end(found)
    elif away:
        raise Exit(EXIT_CODE)


def _require_end(run: Run) -> None:
    """UserError with exit code 5 where a run that was followed is lost."""
    if run.state == "lost":
        from fairway_core.findings import UserError

        message = f"{run.id} is lost: {run.status.reason or 'its target no longer knows it'}"
        hint = f"run it again: fairway retry {run.id}"
        raise UserError.of("lost-run", message, hint, exit_code=5)
