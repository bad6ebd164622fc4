"""`fairway fetch`: a run's outputs and logs, copied out of its folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument, TaskOption

_SHOWN = 20


def command(
    run: RunArgument,
    task: TaskOption = None,
    to: Annotated[
        Path | None,
        Option(
            "--to", metavar="FOLDER", help="Destination; by default a folder named for the run."
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace files that differ.")] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Copy the outputs and logs of a run to FOLDER/TASK/.

    If other files are in the way, nothing is copied; --force replaces them.
    """
    from fairway_cli.server import run_store
    from fairway_cli.ui.columns import shown_files
    from fairway_runner.runs.fetch import fetch

    found = run_store().find(run)
    found.refresh(logs=True)
    with shown_files(found.id, quiet=json_) as arrived:
        fetched = fetch(found, to or Path(found.id), task, force=force, arrived=arrived)
    if json_:
        facts = {"folder": str(fetched.folder), "files": fetched.files, "bytes": fetched.size}
        facts |= {"unchanged": fetched.unchanged, "lacking": fetched.lacking}
        print(json.dumps(facts, indent=1))
        return
    from fairway_core.findings import printable
    from fairway_runner.quantities import counted, size

    for name in fetched.files[:_SHOWN]:
        print(printable(str(fetched.folder / name)))
    if len(fetched.files) > _SHOWN:
        print(f"… and {len(fetched.files) - _SHOWN:,} more")
    same = f"; {fetched.unchanged:,} were there already" if fetched.unchanged else ""
    count = counted(len(fetched.files), "file")
    print(f"{count}, {size(fetched.size)}, in {fetched.folder}{same}")
    for each in fetched.lacking[:_SHOWN]:
        why = "is empty" if each["was_empty"] else "is no longer there"
        said = f"{each['run_id']} task {each['task']}: the output `{each['output']}` {why}"
        print(printable(said), file=sys.stderr)
    if len(fetched.lacking) > _SHOWN:
        print(f"… and {len(fetched.lacking) - _SHOWN:,} more outputs", file=sys.stderr)
