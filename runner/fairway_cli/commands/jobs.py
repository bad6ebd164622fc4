"""Commands that start jobs, or show what they would start."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Exit, Option

from fairway_agent.quick import dataclass
from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import UserError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fairway_cli.server.store import RemoteSubmission
    from fairway_cli.ui.progress import Changes
    from fairway_runner.runs.store import Run, RunStore
    from fairway_runner.submit.prepare import PreparedRun


def submit(
    job: Annotated[str | None, Argument(metavar="JOB", help="The job file.")] = None,
    target: arguments.TargetsOption = None,
    set_: arguments.SetOption = None,
    tag: arguments.TagOption = None,
    note: arguments.NoteOption = None,
    watch: arguments.WatchOption = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Validate the job without submitting it.")
    ] = False,
    run_id: Annotated[
        str | None,
        Option(
            metavar="ID",
            help="Run ID. Repeat with the same ID to resume an interrupted submission.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        Option(
            metavar="RUN",
            help="Resume an interrupted submission, in place of JOB.",
            autocompletion=arguments.complete_runs,
        ),
    ] = None,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Start a sweep of more than 1,000 tasks without asking.")
    ] = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print only the run ID, or the final state.")
    ] = False,
    json_: arguments.JsonOption = False,
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
    asked_at = time.time()
    if resume is not None:
        new: dict[str, object] = {"JOB": job, "--set": set_, "--target": target, "--tag": tag}
        new |= {"--note": note, "--run-id": run_id, "--dry-run": dry_run}
        run = _resumed(resume, [name for name, value in new.items() if value])
    else:
        options = {"run_id": run_id, "tags": tag or (), "note": note}
        asked = _asked(job, set_ or (), arguments.target_names(target), options)
        if dry_run:
            name, (first, *others), tasks, kind = asked.check()
            if json_:
                facts = {"target": first, "tasks": tasks, "dry_run": True}
                print(json.dumps({**facts, **({"next_targets": others} if others else {})}))
            else:
                where, count = ", or else on ".join([first, *others]), counted(tasks, kind)
                print(printable(f"{name} is valid; it would start {count} on {where}"))
            return
        run = asked.submit(yes=yes)
    from fairway_cli.ui.progress import print_started, watch_to_the_end

    if watch:
        raise Exit(watch_to_the_end(run, json_=json_, quiet=quiet, asked=asked_at))
    by_server = arguments.remote_store() is not None
    print_started(run, json_=json_, quiet=quiet, by_server=by_server, asked=asked_at)


def _resumed(run_id: str, others: Sequence[str]) -> Run:
    """Submits the rest of a run. Raises UserError if it was not recorded, with `--server`, or if
    there are `others`: arguments of a new submission."""
    from fairway_runner.submit.submission import resume

    if arguments.remote_store() is not None:
        message = "`fairway submit` has no --resume with --server"
        raise UserError.of("no-server-option", message, "leave one of the two out")
    if others:
        message = f"`--resume` submits a run as it was recorded, without {', '.join(others)}"
        hint = f"leave that out: fairway submit --resume {run_id}"
        raise UserError.of("no-resume-option", message, hint)
    try:
        run = arguments.run_store().find(run_id)
    except UserError as error:
        if error.findings[0].id != "unknown-run":
            raise
        message = f"{error.findings[0].message}: nothing of it was sent"
        hint = f"submit it with that id: fairway submit JOB --run-id {run_id}"
        raise UserError.of("unknown-run", message, hint) from None
    return resume(run)


def _asked(
    job: str | None,
    assignments: Sequence[str],
    names: Sequence[str],
    options: Mapping[str, Any],
) -> _Submission | RemoteSubmission:
    """Returns the job with these assignments, for targets of these names, to be submitted by this
    machine or a server. Raises UserError if there is no job."""
    from fairway_runner.jobs.job_file import load_job

    remote = arguments.remote_store()
    if job is None:
        hint = "fairway submit JOB" + ("" if remote is not None else ", or --resume RUN")
        raise UserError.of("no-job", "no job is given", hint)
    job_file = load_job(job, assignments)
    if remote is not None:
        from fairway_cli.server.store import RemoteSubmission

        return RemoteSubmission(remote, job_file, names, **options)
    from fairway_runner.submit.submission import prepare_submission

    store = arguments.run_store()
    return _Submission(store, partial(prepare_submission, job_file, store, names, **options))


@dataclass(frozen=True)
class _Submission:
    """A job for targets that this machine reaches, made into a run by `prepare`."""

    store: RunStore
    prepare: Callable[..., PreparedRun]

    def check(self) -> tuple[str, list[str], int, str]:
        """Prints warnings; returns its name and targets, and how many tasks or steps it would
        start."""
        from fairway_runner.submit.submission import find_recorded

        prepared = self.prepare(copies=False)
        warn(*prepared.warnings)
        find_recorded(prepared, self.store)
        record, kind = prepared.record, "step" if prepared.steps else "task"
        targets = [each.record.target for each in (prepared, *prepared.others)]
        return record.name, targets, record.tasks, kind

    def submit(self, *, yes: bool) -> Run:
        """Prints warnings, starts the job and returns its run. Very many tasks need `yes`, or
        confirmation. Raises UserError if nobody can be asked."""
        from fairway_runner.submit.submission import MANY, submit, unconfirmed

        prepared = self.prepare(copies=True)
        warn(*prepared.warnings)
        if prepared.tasks > MANY and not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise unconfirmed(prepared.tasks, "add --yes to start them")
            typer.confirm(f"Start {prepared.tasks:,} tasks?", abort=True, err=True)
        return submit(prepared, self.store)


def render(
    job: arguments.JobArgument,
    target: arguments.TargetsOption = None,
    set_: arguments.SetOption = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Print the script that a job would run; nothing is started."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.jobs.launcher import render_launcher
    from fairway_runner.submit.target_selection import select_targets

    job_file = load_job(job, set_ or ())
    targets, _ = select_targets(job_file, arguments.target_names(target))
    chosen = targets[0]
    resolved = job_file.resolve(chosen)
    script = render_launcher(job_file, resolved, chosen)
    if json_:
        facts = {"target": chosen.name, "template": resolved.template, "script": script}
        print(json.dumps({"name": resolved.name, **facts}, indent=1))
    else:
        print(script, end="")


def sweep(
    job: arguments.JobArgument,
    target: arguments.TargetsOption = None,
    set_: arguments.SetOption = None,
    json_: arguments.JsonOption = False,
) -> None:
    """List the points of a job's sweep with the parameters of each; nothing is started.

    Of the job only `sweep` and `params` are checked; `fairway submit --dry-run` checks all of it.
    """
    from fairway_cli.ui.runs import print_points
    from fairway_runner.jobs.job_file import load_job, sweeps_files
    from fairway_runner.submit.run_inputs import resolve_files
    from fairway_runner.submit.target_selection import select_targets

    job_file = load_job(job, set_ or ())
    if target or sweeps_files(job_file.document.data):
        targets, _ = select_targets(job_file, arguments.target_names(target))
        job_file = resolve_files(job_file, targets[0])
    sweep = job_file.require_sweep()
    rows = [{"index": index, "params": params} for index, params in enumerate(sweep.merged())]
    if json_:
        print(json.dumps(rows, indent=1))
    else:
        print_points(rows)


def templates(
    name: Annotated[
        str | None,
        Argument(
            metavar="[NAME]",
            help="Explain this template.",
            autocompletion=arguments.complete_templates,
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """List the launcher templates, or explain one: requirements, options, usage.

    Your own go into a folder job_templates/, as NAME.sh.j2; they win over those of Fairway.
    """
    from fairway_cli.ui.catalogue import print_explanation, print_list
    from fairway_runner.jobs.templates import template_facts, template_list

    facts: Any = template_list(Path.cwd()) if name is None else template_facts(name, Path.cwd())
    if json_:
        print(json.dumps(facts, indent=1))
    elif name is None:
        print_list(facts)
    else:
        print_explanation(facts)


def retry(
    run: arguments.RunArgument,
    failed: Annotated[
        bool,
        Option("--failed", help="Only tasks that failed, not those that were cancelled or lost."),
    ] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Run the unsuccessful tasks of an ended run again.

    They resume from their checkpoints, append to their logs and keep counting attempts.
    """
    from fairway_runner.runs.records import has_steps
    from fairway_runner.submit.rerun import retry

    found = arguments.run_store().find(run)
    attempts = retry(found, failed_only=failed)
    count = len(attempts)
    if json_:
        print(json.dumps({"run_id": found.id, "tasks": count}))
        return
    print(f"{found.id} runs again: {counted(count, 'task')}")
    # Skips the output of earlier attempts.
    number, *others = sorted({1} if has_steps(found.folder) else set(attempts.values()))
    options = "-f --tail 10" if others else f"-f --attempt {number}" if number > 1 else "-f"
    print(f"  follow it:  fairway logs {found.id} {options}")


def rerun(
    run: arguments.RunArgument,
    set_: arguments.SetOption = None,
    target: Annotated[
        str | None,
        Option(
            "--target",
            "-t",
            help="Where to run; by default where it ran.",
            autocompletion=arguments.complete_targets,
        ),
    ] = None,
    tag: arguments.TagOption = None,
    note: arguments.NoteOption = None,
    watch: arguments.WatchOption = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Start a new run with the job and the code of an earlier one.

    -s sets fields over those that the earlier run was submitted with, and --target takes it
    elsewhere; what changed is printed, with --watch before the run starts. The new run has the
    earlier one's tags.
    """
    from fairway_cli.ui.progress import changes_shown, print_started, watch_to_the_end
    from fairway_runner.submit.rerun import rerun
    from fairway_runner.targets.lookup import find_target

    there = None if target is None else find_target(target)
    earlier = arguments.run_store().find(run)

    def print_changes(changes: Changes) -> None:
        for line in changes_shown(changes) if watch else ():
            print(line, file=sys.stderr, flush=True)

    again = rerun(earlier, set_ or (), there, tags=tag or (), note=note, on_changes=print_changes)
    warn(*again.warnings)
    if not watch:
        print_started(again.run, json_=json_, changes=again.changes)
        return
    raise Exit(watch_to_the_end(again.run, json_=json_))
