"""`fairway list`: the runs of this project."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway_cli.commands import completion
from fairway_cli.commands.arguments import JsonOption, StateOption, states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import RunStore


def command(
    state: StateOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Only runs of this job.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="Only runs on this target.", autocompletion=completion.targets
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show only the N most recent runs.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Draw the list again until all of them have ended.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """List the runs of this project, the newest last.

    With --target also those that were submitted to it from elsewhere.
    """
    from fairway_core.findings import format_finding
    from fairway_runner.runs.facts import run_facts
    from fairway_runner.runs.query import select
    from fairway_runner.runs.refresh import refresh_all
    from fairway_runner.runs.store import RunStore

    store, wanted = RunStore.here(), states(state)
    refused = _adopt(target, store) if target is not None and target != "local" else ()

    def look() -> list[dict[str, Any]]:
        refresh_all(store.unsorted())
        return [run_facts(*each) for each in select(store, wanted, name, target, limit).runs]

    if watch:
        _watch(look, json_=json_)
    unanswered = refresh_all(store.unsorted())
    listing = select(store, wanted, name, target, limit)
    for finding in [*refused, *unanswered, *listing.findings]:
        print(format_finding(finding), file=sys.stderr)
    runs = [run_facts(*each) for each in listing.runs]
    if json_:
        print(json.dumps(runs, indent=1))
    elif not runs:
        some = "no runs yet; start one with: fairway submit JOB"
        chosen = wanted or name or target or listing.findings
        print("no run to show" if chosen else some)
    elif not watch or not sys.stdout.isatty():
        from fairway_cli.ui.tables import run_table

        print(run_table(runs))


def _adopt(target: str, store: RunStore) -> Sequence[Finding]:
    """Makes the runs on a target known here; one that no file names has none but those.

    Returns what is wrong with those that cannot be read.
    """
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import all_targets

    known = all_targets()
    return engine_for(known[target].target).adopt(store) if target in known else ()


def _watch(look: Callable[[], list[dict[str, Any]]], *, json_: bool) -> None:
    from fairway_cli.ui.live import until_ended

    try:
        until_ended(look, draws=sys.stdout.isatty() and not json_)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
