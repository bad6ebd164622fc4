"""`fairway note`: what a run is about, in your own words."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Argument

from fairway_cli.commands.arguments import JsonOption, RunArgument


def command(
    run: RunArgument,
    text: Annotated[
        str | None,
        Argument(
            metavar="[TEXT]",
            help='The new note; "" for none. Without it the note is printed.',
            show_default=False,
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Write a note about a run, or print the one it has.

    A change is kept on this machine only; a note given with `submit --note` stays with the run
    wherever it is listed.
    """
    from fairway_core.findings import printable
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    labels = found.labels if text is None else found.label(note=text)
    if json_:
        print(json.dumps({"run_id": found.id, "tags": labels.tags, "note": labels.note}))
        return
    for line in labels.note.splitlines() or [f"{found.id} has no note"]:
        print(printable(line))
