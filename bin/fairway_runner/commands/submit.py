"""`fairway submit`: start a job on a target."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fairway_runner.commands.arguments import JobArgument, JsonOption, SetOption, TargetOption

if TYPE_CHECKING:
    from fairway_runner.runs import Run

_DETACHED = 130


def command(
    job: JobArgument,
    target: TargetOption = "local",
    set_: SetOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the log, and exit with the job's code.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Start a job; prints the run's id once it has started.

    With --watch its log is followed and its exit code is this command's; with --json the
    log goes to standard error. The run goes on when this command or its terminal ends.
    """
    from fairway_runner.job_file import load_job
    from fairway_runner.runs import RunStore
    from fairway_runner.submission import submit
    from fairway_runner.targets import find_target

    run = submit(load_job(job, set_ or ()), find_target(target), RunStore.here())
    if not watch:
        _announce(run, json_=json_)
        return
    if not json_:
        print(f"{run.id} runs on {run.record.target}", flush=True)
    _follow(run, to_stderr=json_)
    _announce(run, json_=json_, ended=True)
    raise typer.Exit(run.exit_code)


def _follow(run: Run, *, to_stderr: bool) -> None:
    from fairway_runner.ui.follow import copy_log

    try:
        copy_log(run, 0, (sys.stderr if to_stderr else sys.stdout).buffer, follow=True)
        run.wait()
    except KeyboardInterrupt:
        print(f"\n{run.id} goes on; to end it: fairway cancel {run.id}", file=sys.stderr)
        raise typer.Exit(_DETACHED) from None


def _announce(run: Run, *, json_: bool, ended: bool = False) -> None:
    from fairway_runner.ui.facts import run_facts

    facts = run_facts(run)
    if json_:
        print(json.dumps({name: facts[name] for name in ("run_id", "target", "tasks", "state")}))
    elif ended:
        from fairway_runner.ui.tables import duration

        spent = f" after {duration(facts['seconds'])}" if facts["seconds"] else ""
        print(f"{run.id} {facts['state']}{spent}; its files are in {run.folder}")
    else:
        print(f"{run.id} runs on {facts['target']}")
        print(f"  follow it:  fairway logs {run.id} -f")
        print(f"  end it:     fairway cancel {run.id}")
