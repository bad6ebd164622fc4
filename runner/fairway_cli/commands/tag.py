"""`fairway tag`: words by which runs are found again."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_cli.commands import completion
from fairway_cli.commands.arguments import JsonOption, RunArgument


def command(
    run: RunArgument,
    tags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG]…",
            help="Tags to add.",
            show_default=False,
            autocompletion=completion.tags,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="TAG",
            help="Take this tag off. Repeatable.",
            autocompletion=completion.tags,
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Add tags to a run, take some off, or print those it has.

    Runs with a tag: fairway list --tag TAG. What is changed here is known on this machine;
    tags given with `submit --tag` are known wherever the run is.
    """
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    labels = found.labels
    if tags or remove:
        labels = found.label(tags or (), remove=remove or ())
    if json_:
        print(json.dumps({"run_id": found.id, "tags": labels.tags, "note": labels.note}))
    else:
        print(f"{found.id} {' '.join(labels.tags) or 'has no tags'}")
