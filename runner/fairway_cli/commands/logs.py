"""`fairway logs`: what a run printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fairway_cli.commands.arguments import DeadlineOption, RunArgument, TaskOption

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_runner.runs.store import Run


def command(
    run: RunArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the run has ended.")
    ] = False,
    task: TaskOption = None,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Only this rank, where the log names ranks.")
    ] = None,
    node: Annotated[
        int | None, typer.Option("--node", min=0, help="Only the ranks of this node, from 0.")
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", min=1, help="Only this attempt of each task, from 1."),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option("--tail", "-n", metavar="N", min=0, help="Only the last N lines of each log."),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            "--grep", metavar="PATTERN", help="Only lines that match this regular expression."
        ),
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Print what a run printed; lines of several tasks begin with the task, as [3].

    A log names its ranks where the job sets `options: {label_ranks: true}`; a terminal then shows
    each in a colour of its own. --tail takes the last lines of what the other options leave.
    An attempt that is not the first begins with a line that says why there is another.
    Where its target does not answer, what is known here is printed, and the exit code is 5; with
    --follow it is asked again until the deadline.
    """
    from fairway_cli.ui.attempts import require_attempt
    from fairway_cli.ui.away import EXIT_CODE, is_away
    from fairway_cli.ui.columns import has_colours
    from fairway_cli.ui.follow import Selection, copy_logs, names_ranks
    from fairway_cli.ui.log_lines import LineFilter, pattern
    from fairway_runner.runs.store import RunStore

    expression = pattern(grep)
    found = RunStore.here().find(run)
    # Who follows looks again and again. What is printed of a rank is looked for in the log.
    looks = not follow or rank is not None or node is not None
    away = looks and is_away(found, lambda: found.refresh(logs=True))
    several = names_ranks(found) or (task is None and found.record.tasks > 1)
    coloured = several and has_colours()
    lines = LineFilter(_ranks(found, task, rank, node), expression, coloured)
    selection = Selection.of(found, task, lines, tail, attempt)
    if attempt is not None and not follow:
        require_attempt(found, selection.tasks, attempt)
    try:
        copy_logs(found, selection, sys.stdout.buffer, follow=follow)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if follow:
        _require_end(found)
    elif away:
        raise typer.Exit(EXIT_CODE)


def _require_end(run: Run) -> None:
    """UserError with exit code 5 where a run that was followed is lost."""
    if run.state == "lost":
        from fairway_core.findings import UserError

        message = f"{run.id} is lost: {run.status.reason or 'nothing knows of it any more'}"
        hint = f"run it again: fairway retry {run.id}"
        raise UserError.of("lost-run", message, hint, exit_code=5)


def _ranks(
    run: Run, task: str | None, rank: int | None, node: int | None
) -> Collection[int] | None:
    """The ranks that are asked for; None is all of them."""
    if rank is None and node is None:
        return None
    from fairway_core.findings import UserError
    from fairway_runner.jobs.ranks import ranks_of_node
    from fairway_runner.runs.chosen import chosen_task

    spec = run.tasks[0 if task is None else chosen_task(run, task)]
    if rank is not None and rank >= spec.world_size:
        message = f"{run.id} has no rank {rank}"
        raise UserError.of("unknown-rank", message, f"its ranks are 0 to {spec.world_size - 1}")
    if node is None:
        return {rank for rank in [rank] if rank is not None}
    if node >= spec.nodes:
        message = f"{run.id} has no node {node}"
        raise UserError.of("unknown-node", message, f"its nodes are 0 to {spec.nodes - 1}")
    ranks = set(ranks_of_node(node, spec.processes_per_node))
    return ranks if rank is None else ranks & {rank}
