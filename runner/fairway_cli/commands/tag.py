"""`fairway tag`: words by which runs are found again."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Argument, Option

from fairway_cli.commands.arguments import JsonOption, RunArgument, complete_tags


def command(
    run: RunArgument,
    tags: Annotated[
        list[str] | None,
        Argument(
            metavar="[TAG]…",
            help="Tags to add.",
            show_default=False,
            autocompletion=complete_tags,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        Option(
            "--remove",
            metavar="TAG",
            help="Tag to remove. Repeatable.",
            autocompletion=complete_tags,
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Add tags to a run, remove some, or print those it has.

    To find runs by tag: fairway list --tag TAG. Changes are kept on this machine only; tags
    given with `submit --tag` stay with the run wherever it is listed.
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
