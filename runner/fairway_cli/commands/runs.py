"""Commands for single runs: state, end, labels and removal."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Exit, Option

from fairway_cli.commands import arguments
from fairway_core.findings import UserError, counted, each_of, printable
from fairway_runner.quantities import format_names, size, span

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def show(
    run: arguments.RunArgument,
    failed: Annotated[
        bool, Option("--failed", help="Only the tasks that did not succeed.")
    ] = False,
    limit: Annotated[
        int, Option("--limit", "-n", min=0, help="Show at most N tasks; 0 for all.")
    ] = 50,
    json_: arguments.JsonOption = False,
) -> None:
    """Show a run: its state, its tasks and its files.

    If its target does not answer, what is known locally is shown, and the exit code is 5.
    """
    from fairway_cli.ui.progress import is_away
    from fairway_cli.ui.runs import print_overview
    from fairway_runner.runs.view import RunView

    found, remote = arguments.run_store().find(run), arguments.remote_store()
    # A server has the logs and samples itself.
    logs = remote is None and bool(found.record.metrics)
    away = is_away(found, lambda: found.refresh(logs=logs, samples=remote is None))
    view = RunView.of(found, has_currency=json_) if remote is None else remote.view(found)
    if json_:
        print(json.dumps(view.to_json(failed=failed), indent=1))
    else:
        print_overview(view, view.unsuccessful if failed else view.tasks, limit)
    if away:
        raise Exit(5)


def wait(
    runs: arguments.RunsArgument,
    timeout: Annotated[
        str | None,
        Option(
            metavar="SPAN", help="Stop waiting after this long and exit with 5; the runs continue."
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Wait until runs have ended, print their states, and exit with the first failing code.

    Standard error says why a run waits, each time that the reason changes.
    """
    from fairway_cli.ui.follow import Remarks
    from fairway_cli.ui.progress import print_empty
    from fairway_runner.engines import outage
    from fairway_runner.runs.output_files import empty_outputs

    began, longest = time.monotonic(), None if timeout is None else span("--timeout", timeout)
    store, code, facts = arguments.run_store(), 0, []
    with outage.limited(math.inf if longest is None else longest):
        found = [store.find(name) for name in runs]
    for run in found:
        remarks = Remarks(run)
        for status in run.looks(timeout=longest, began=began):
            if not status.is_final:
                remarks.look()
        code = code or run.exit_code
        fact = {"run_id": run.id, "state": run.state, "exit_code": run.exit_code}
        facts.append({**fact, "empty_outputs": (empty := empty_outputs(run))})
        if not json_:
            print(f"{run.id} {run.state}", flush=True)
            print_empty(run.id, empty)
    if json_:
        print(json.dumps(facts, indent=1))
    raise Exit(code)


def cancel(
    runs: arguments.RunsArgument,
    task: Annotated[
        str | None,
        Option(
            metavar="TASK",
            help="Only this task (its number, from 0, or finally), or only this step.",
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Cancel runs: signal their programs, and kill them after the grace period.

    Until then the shell of a job's command goes on to its next program, unless it begins with
    trap 'exit 143' TERM.
    """
    from fairway_runner.runs.view import cancel_facts

    store, facts = arguments.run_store(), []

    def end(run: Run) -> None:
        run.cancel(task)
        fact = cancel_facts(run, task)
        facts.append(fact)
        if not json_:
            ended = fact["state"] if task is None else f"task {task} {fact['task_state']}"
            print(f"{run.id} {ended}", flush=True)

    found = [store.find(name, active=True) for name in runs]
    try:
        each_of(found, end)
    finally:
        if json_:
            print(json.dumps(facts, indent=1))


def tag(
    run: arguments.RunArgument,
    tags: Annotated[
        list[str] | None,
        Argument(metavar="[TAG]…", help="Tags to add.", autocompletion=arguments.complete_tags),
    ] = None,
    remove: Annotated[
        list[str] | None,
        Option(
            metavar="TAG", help="Tag to remove. Repeatable.", autocompletion=arguments.complete_tags
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Add tags to a run, remove some, or print those it has.

    To find runs by tag: fairway list --tag TAG. Changes are kept on this machine only; tags
    given with `submit --tag` stay with the run wherever it is listed.
    """
    found = arguments.run_store().find(run)
    labels = found.labels
    if tags or remove:
        labels = found.label(tags or (), remove=remove or ())
    if json_:
        print(json.dumps({"run_id": found.id, "tags": labels.tags, "note": labels.note}))
    else:
        print(f"{found.id} {' '.join(labels.tags) or 'has no tags'}")


def note(
    run: arguments.RunArgument,
    text: Annotated[
        str | None,
        Argument(
            metavar="[TEXT]", help='The new note; "" for none. Without it the note is printed.'
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Write a note about a run, or print the one it has.

    A change is kept on this machine only; a note given with `submit --note` stays with the run
    wherever it is listed.
    """
    found = arguments.run_store().find(run)
    labels = found.labels if text is None else found.label(note=text)
    if json_:
        print(json.dumps({"run_id": found.id, "tags": labels.tags, "note": labels.note}))
        return
    for line in labels.note.splitlines() or [f"{found.id} has no note"]:
        print(printable(line))


def clean(
    runs: Annotated[
        list[str] | None,
        Argument(
            metavar="[RUN…]",
            help="Only these runs; by default all that have ended.",
            autocompletion=arguments.complete_runs,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        Option(metavar="SPAN", help="Only runs that ended at least this long ago, such as 30d."),
    ] = None,
    state: arguments.StateOption = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Remove runs that have ended, with their logs, outputs and checkpoints.

    Code snapshots that no other run uses are removed too.
    """
    from fairway_runner.runs.clean import removable, remove

    store = arguments.run_store()
    chosen = removable(
        store,
        runs or (),
        None if older_than is None else span("--older-than", older_than),
        arguments.states(state),
    )
    if chosen and not yes:
        named = format_names([run.id for run in chosen], 5)
        if not sys.stdin.isatty():
            message = f"this would remove {counted(len(chosen), 'run')}: {named}"
            raise UserError.of("not-confirmed", message, "add --yes to do it", exit_code=3)
        if not typer.confirm(f"Remove {named}, with all outputs and checkpoints?"):
            raise Exit(130)
    removed = remove(store, chosen)
    if json_:
        facts = {"runs": removed.runs, "snapshots": removed.snapshots, "bytes": removed.size}
        print(json.dumps(facts, indent=1))
    else:
        unused = "unused copy" if removed.snapshots == 1 else "unused copies"
        copies = f"{removed.snapshots:,} {unused} of code"
        print(f"removed {counted(len(removed.runs), 'run')}, {copies}, {size(removed.size)}")
    if removed.kept:
        raise UserError(removed.kept)
