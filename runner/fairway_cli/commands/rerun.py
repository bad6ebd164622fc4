"""`fairway rerun`: the same job with the same code, as a new run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import (
    DeadlineOption,
    JsonOption,
    NoteOption,
    RunArgument,
    SetOption,
    TagOption,
    WatchOption,
    complete_targets,
)

if TYPE_CHECKING:
    from fairway_cli.ui.progress import Changes


def command(
    run: RunArgument,
    set_: SetOption = None,
    target: Annotated[
        str | None,
        Option(
            "--target",
            "-t",
            help="Where to run; by default where it ran.",
            autocompletion=complete_targets,
        ),
    ] = None,
    tag: TagOption = None,
    note: NoteOption = None,
    watch: WatchOption = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Start a new run with the job and the code of an earlier one.

    -s sets fields over those that the earlier run was submitted with, and --target takes it
    elsewhere; what changed is printed, with --watch before the run starts. The new run has the
    earlier one's tags.
    """
    from fairway_cli.ui.progress import changes_shown, print_started, watch_to_the_end
    from fairway_core.findings import format_finding
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit.rerun import rerun
    from fairway_runner.targets.lookup import find_target

    there = None if target is None else find_target(target)
    earlier = RunStore.here().find(run)

    def print_changes(changes: Changes) -> None:
        for line in changes_shown(changes) if watch else ():
            print(line, file=sys.stderr, flush=True)

    again = rerun(earlier, set_ or (), there, tags=tag or (), note=note, on_changes=print_changes)
    for finding in again.warnings:
        print(format_finding(finding), file=sys.stderr)
    if not watch:
        print_started(again.run, json_=json_, changes=again.changes)
        return
    raise Exit(watch_to_the_end(again.run, json_=json_))
