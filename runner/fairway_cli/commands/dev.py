"""`fairway dev`: a session on a target's nodes, with the code kept in sync."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from fairway_cli.commands.arguments import (
    DeadlineOption,
    JsonOption,
    RunArgument,
    SetOption,
    TargetArgument,
    complete_runs,
)
from fairway_cli.ending import warn
from fairway_cli.lazy import StartGroup
from fairway_cli.server import run_store
from fairway_core.findings import UserError
from fairway_core.suggestions import nearest
from fairway_runner.quantities import span

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.dev.sessions import Wanted
    from fairway_runner.runs.store import Run, RunStore

dev = Typer(
    cls=StartGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Work in a session on a target's nodes, with your code kept in sync.\n\n"
    "`fairway dev TARGET` starts a session, or attaches to the running one; see `fairway dev start "
    "-h`.",
)


@dev.command()
def start(
    target: TargetArgument,
    job: Annotated[
        str | None,
        Option(metavar="JOB", help="Job whose code, environment and container to use."),
    ] = None,
    set_: SetOption = None,
    nodes: Annotated[
        int | None, Option(min=1, help="Number of nodes; by default the job's.")
    ] = None,
    hours: Annotated[
        float | None, Option(help="End it after this many hours; by default 4.")
    ] = None,
    idle: Annotated[
        str | None,
        Option(
            metavar="SPAN", help="End it after this long without use; by default 30m, 0s is never."
        ),
    ] = None,
    jupyter: Annotated[
        bool, Option("--jupyter", help="Run JupyterLab in it, and open a tunnel to it.")
    ] = False,
    sync: Annotated[
        bool, Option("--sync/--no-sync", help="Copy changes of the code to the session.")
    ] = True,
    detach: Annotated[bool, Option("--detach", help="Start it without attaching to it.")] = False,
    json_: Annotated[bool, Option("--json", help="With --detach: print JSON.")] = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Start a session on a target, or attach to the one that is there.

    `fairway dev TARGET` is short for it. While it stays with the session, changes of the code
    are copied there, from here only. Ctrl-C leaves the session running.
    """
    from fairway_cli.ui.dev import stay
    from fairway_cli.ui.progress import print_started
    from fairway_runner.dev.sessions import begin

    if json_ and not detach:
        raise UserError.of("bad-value", "--json needs --detach", "add --detach")
    store, found = run_store(), _target(target)
    options = {"job": job, "set_": set_, "nodes": nodes, "hours": hours, "idle": idle}
    options["jupyter"] = jupyter or None
    # Not by their truth: 0 hours were typed, and are refused.
    given = {name: value for name, value in options.items() if value is not None}
    run = _there(store, found, given)
    if run is None:
        run, warnings = begin(_wanted(given), found, store)
        warn(*warnings)
    if detach:
        print_started(run, json_=json_)
        return
    # -P: a module in the current folder is the user's own, and not Fairway's.
    program = [sys.executable, "-P", "-m", "fairway_cli.main"]  # for what runs beside it
    raise Exit(stay(run, program, sync=sync))


@dev.command()
def stop(
    run: Annotated[
        str | None,
        Argument(
            metavar="[RUN]",
            help="The session; by default the only one.",
            show_default=False,
            autocompletion=complete_runs,
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """End a session."""
    from fairway_runner.dev.sessions import chosen
    from fairway_runner.dev.ssh import remove_host

    session = chosen(run_store(), run)
    session.cancel()
    remove_host(session)
    if json_:
        print(json.dumps({"run_id": session.id, "state": session.state}))
    else:
        print(f"{session.id} {session.state}")


@dev.command("list")
def list_(json_: JsonOption = False, _deadline: DeadlineOption = None) -> None:
    """List the sessions of this project that have not ended."""
    from fairway_cli.ui.runs import run_table
    from fairway_runner.dev.sessions import going
    from fairway_runner.runs.view import run_facts

    sessions, findings = going(run_store())
    warn(*findings)
    facts = [run_facts(session) for session in sessions]
    if json_:
        print(json.dumps(facts, indent=1))
    elif facts:
        print(run_table(facts))
    else:
        print("no session is running; start one with: fairway dev TARGET")


@dev.command(hidden=True)
def connect(run: RunArgument, _deadline: DeadlineOption = None) -> None:
    """Connect ssh to a session, as the ProxyCommand that `fairway dev` writes does."""
    from fairway_runner.dev.ssh import server_command
    from fairway_runner.runs.store import enter

    session = run_store().find(run)
    raise Exit(enter(session, server_command(session)))


def _target(name: str) -> Target:
    """The target; UserError where there is none, with the command that may have been meant."""
    from fairway_runner.targets.lookup import all_targets, find_target

    try:
        return find_target(name)
    except UserError as error:
        command = nearest(name, ("list", "start", "stop"))
        if command is None or error.findings[0].id != "unknown-target":
            raise
        hint = f"did you mean `fairway dev {command}`?"
        if target := nearest(name, all_targets()):
            hint = f"did you mean `fairway dev {command}`, or the target `{target}`?"
        raise UserError([replace(error.findings[0], hint=hint)]) from None


def _there(store: RunStore, target: Target, given: dict[str, Any]) -> Run | None:
    """The session that goes on there, the newest where there are several; UserError where what is
    wanted is another."""
    from fairway_runner.dev.sessions import going

    sessions, findings = going(store, target.name)
    if findings:
        raise UserError(findings, exit_code=5)
    if not sessions:
        return None
    run = sessions[-1]
    if given:
        names = ", ".join(f"--{name.rstrip('_')}" for name in given)
        message = f"{run.id} already runs on {target.name}: {names} would need another session"
        hint = (
            f"attach to it: fairway dev {target.name}\nor end it first: fairway dev stop {run.id}"
        )
        raise UserError.of("session-there", message, hint)
    return run


def _wanted(given: dict[str, Any]) -> Wanted:
    """UserError for a limit that is none."""
    from fairway_runner.dev.sessions import Wanted

    plain = ("job", "nodes", "jupyter")
    fields: dict[str, Any] = {name: given[name] for name in plain if name in given}
    if "set_" in given:
        fields["assignments"] = given["set_"]
    if "idle" in given:
        fields["idle"] = 0.0 if given["idle"] in ("0", "0s") else span("--idle", given["idle"])
    if "hours" in given:
        if not 0 < given["hours"] <= _MOST_HOURS:
            message = f"--hours: {given['hours']:g} is not a valid length of a session"
            hint = f"give more than 0, and at most {_MOST_HOURS:,}"
            raise UserError.of("bad-value", message, hint)
        fields["seconds"] = given["hours"] * 3600
    return Wanted(**fields)


_MOST_HOURS = 24 * 366
