"""`fairway submit`: start a job on a target."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import (
    DeadlineOption,
    JsonOption,
    NoteOption,
    SetOption,
    TagOption,
    TargetsOption,
    WatchOption,
    complete_runs,
    target_names,
)
from fairway_core.findings import UserError, format_finding, printable

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run, RunStore


def command(
    job: Annotated[
        str | None, Argument(metavar="JOB", help="The job file.", show_default=False)
    ] = None,
    target: TargetsOption = None,
    set_: SetOption = None,
    tag: TagOption = None,
    note: NoteOption = None,
    watch: WatchOption = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Validate the job without submitting it.")
    ] = False,
    run_id: Annotated[
        str | None,
        Option(
            "--run-id",
            metavar="ID",
            help="Run ID. Repeat with the same ID to resume an interrupted submission.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        Option(
            "--resume",
            metavar="RUN",
            help="Resume an interrupted submission, in place of JOB.",
            autocompletion=complete_runs,
        ),
    ] = None,
    _deadline: DeadlineOption = None,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Start a sweep of more than 1,000 tasks without asking.")
    ] = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print only the run ID, or the final state.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Submit a job and print the run ID once it has started.

    --watch follows the log, or the progress of a sweep, and exits with the job's code; with
    --json the log goes to standard error. The run continues when this command or its terminal
    ends.

    A run with several targets goes to the first one that answers, has capacity and quota for it,
    and does not refuse it. It stays there.

    In a job with steps, those that come after no other start at once. The others wait on their
    targets, or are started by a command that follows the run; the output says which.
    """
    from fairway_cli.server import remote_store, require_unset, run_store
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.submit.submission import prepare_submission, recorded_before, submit

    require_unset("submit", resume=resume)
    remote = remote_store()
    if resume is not None:
        from fairway_runner.submit.submission import resume as go_on

        run = go_on(_unfinished(run_store(), resume))
    elif job is None:
        hint = "fairway submit JOB" + ("" if remote is not None else ", or --resume RUN")
        raise UserError.of("no-job", "no job is given", hint)
    elif remote is not None:
        from fairway_cli.server.submit import RemoteSubmission

        file, settings, names = load_job(job, set_ or ()), set_ or (), target_names(target)
        asked = RemoteSubmission(remote, file, settings, names, run_id, tag or (), note)
        if dry_run:
            name, where, count, kind = asked.check()
            _print_valid(name, [where], count, kind, json_=json_)
            return
        run = asked.submit(yes=yes)
    else:
        store, file, names = run_store(), load_job(job, set_ or ()), target_names(target)
        prepared = prepare_submission(
            *(file, store, names), run_id=run_id, tags=tag or (), note=note, copies=not dry_run
        )
        for finding in prepared.warnings:
            print(format_finding(finding), file=sys.stderr)
        if dry_run:
            recorded_before(prepared, store)
            record, kind = prepared.record, "step" if prepared.steps else "task"
            first_and_next = [record.target, *prepared.next_targets]
            _print_valid(record.name, first_and_next, record.tasks, kind, json_=json_)
            return
        _ask(prepared.tasks, yes=yes)
        run = submit(prepared, store)
    from fairway_cli.ui.progress import print_started, watch_to_the_end

    if watch:
        raise Exit(watch_to_the_end(run, json_=json_, quiet=quiet))
    print_started(run, json_=json_, quiet=quiet, by_server=remote is not None)


def _print_valid(name: str, targets: list[str], tasks: int, kind: str, *, json_: bool) -> None:
    """Prints that a job is valid, its targets, and its number of tasks or steps (`kind`)."""
    from fairway_runner.quantities import counted

    if json_:
        facts = {"target": targets[0], "tasks": tasks, "dry_run": True}
        print(json.dumps({**facts, **({"next_targets": targets[1:]} if targets[1:] else {})}))
        return
    where = ", or else on ".join(targets)
    print(printable(f"{name} is valid; it would start {counted(tasks, kind)} on {where}"))


def _unfinished(store: RunStore, run_id: str) -> Run:
    """The run that is to be resumed; UserError where its submission was not even written down."""
    try:
        return store.find(run_id)
    except UserError as error:
        if error.findings[0].id != "unknown-run":
            raise
        message = f"{error.findings[0].message}: nothing of it was sent"
        hint = f"submit it with that id: fairway submit JOB --run-id {run_id}"
        raise UserError.of("unknown-run", message, hint) from None


def _ask(tasks: int, *, yes: bool) -> None:
    """Asks before very many tasks; UserError where nobody can be asked."""
    from fairway_runner.submit.submission import MANY, many

    if yes or tasks <= MANY:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(f"Start {tasks:,} tasks?", abort=True, err=True)
        return
    raise many(tasks, "add --yes to start them")
