"""`fairway clean`: remove runs that have ended."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import (
    DeadlineOption,
    JsonOption,
    StateOption,
    complete_runs,
    span,
    states,
)


def command(
    runs: Annotated[
        list[str] | None,
        Argument(
            metavar="[RUN…]",
            help="Only these runs; by default all that have ended.",
            autocompletion=complete_runs,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        Option(
            "--older-than",
            metavar="SPAN",
            help="Only runs that ended at least this long ago, such as 30d.",
        ),
    ] = None,
    state: StateOption = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Remove runs that have ended, with their logs, outputs and checkpoints.

    Code snapshots that no other run uses are removed too.
    """
    from fairway_runner.runs.clean import removable, remove
    from fairway_runner.runs.store import RunStore

    store = RunStore.here()
    chosen = removable(
        store,
        runs or (),
        None if older_than is None else span("--older-than", older_than),
        states(state),
    )
    if chosen and not yes:
        _ask([run.id for run in chosen])
    removed = remove(store, chosen)
    if json_:
        facts = {"runs": removed.runs, "snapshots": removed.snapshots, "bytes": removed.size}
        print(json.dumps(facts, indent=1))
    else:
        from fairway_runner.quantities import counted, size

        copies = f"{removed.snapshots:,} unused copies of code"
        print(f"removed {counted(len(removed.runs), 'run')}, {copies}, {size(removed.size)}")
    if removed.kept:
        from fairway_core.findings import UserError

        raise UserError(removed.kept)


def _ask(ids: list[str]) -> None:
    """Goes on only where a person at the terminal says so."""
    from fairway_runner.quantities import counted, few

    shown = few(ids, 5)
    if not sys.stdin.isatty():
        from fairway_core.findings import UserError

        message = f"this would remove {counted(len(ids), 'run')}: {shown}"
        raise UserError.of("not-confirmed", message, "add --yes to do it", exit_code=3)
    if not typer.confirm(f"Remove {shown}, with all outputs and checkpoints?"):
        raise Exit(130)
