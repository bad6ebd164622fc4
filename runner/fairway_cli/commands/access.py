"""Commands that reach into nodes, running tasks and sessions."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Argument, Exit, Option, Typer
from typer.core import TyperGroup

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import UserError, printable
from fairway_core.suggestions import nearest
from fairway_runner.quantities import span

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.dev_sessions import SessionRequest
    from fairway_runner.runs.store import Run, RunStore


def ssh(
    target: arguments.TargetArgument,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[NODE] [-- COMMAND…]",
            help="A node and a command; by default a shell on the main host, or on any node.",
        ),
    ] = None,
) -> None:
    """Open a shell on a node of a target, or run a command there."""
    words = words or []
    # Click removes the `--`, which alone marks the start of the command.
    wanted = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    nodes = words[: len(words) - len(wanted)]
    if len(nodes) > 1:
        hint = f"fairway ssh {target} {nodes[0]} -- {shlex.join(wanted or nodes[1:])}"
        raise UserError.of("many-nodes", f"a shell opens on one node, not on {len(nodes)}", hint)
    node = nodes[0] if nodes else None
    raise Exit(arguments.engine_of(target).shell(node, wanted))


def ssh_config(
    targets: Annotated[
        list[str],
        Argument(
            metavar="TARGET…", help="Names of targets.", autocompletion=arguments.complete_targets
        ),
    ],
) -> None:
    """Print the `Host` blocks by which ssh, scp, rsync and VS Code reach targets.

    To use them: fairway ssh-config gpu >~/.ssh/fairway, and `Include fairway` as the first line
    of ~/.ssh/config. Then `ssh gpu` connects to the target's main host or login node.
    """
    from fairway_runner.targets.lookup import find_target, host_block

    print("\n\n".join([host_block(find_target(name)) for name in targets]))


def exec_(
    run: arguments.RunArgument,
    words: Annotated[list[str], Argument(metavar="-- COMMAND…", help="The command to run.")],
    task: Annotated[
        str | None,
        Option(metavar="TASK", help="The task to join; by default the first that is running."),
    ] = None,
    node: Annotated[int | None, Option(min=0, help="On this node of the task, from 0.")] = None,
    rank: Annotated[int | None, Option(min=0, help="The rank to join, on its node.")] = None,
) -> None:
    """Run a command in the environment, folder and container of a running task.

    For example `fairway exec RUN -- nvidia-smi`, or `bash`. The process beside which it runs is in
    FAIRWAY_PID: `fairway exec RUN --rank 3 -- sh -c 'py-spy dump --pid $FAIRWAY_PID'`. It exits
    with the command's code.
    """
    from fairway_runner.runs.store import enter

    if not words[0]:
        message = "the name of the program to run is empty"
        raise UserError.of("no-program", message, f"name one: fairway exec {run} -- bash")
    found = arguments.run_store().find(run, active=True)
    raise Exit(enter(found, words, task=task, node=node, rank=rank))


_PAUSE = 0.1  # seconds between two checks whether ssh listens


def tunnel(
    run: arguments.RunArgument,
    port: Annotated[
        int, Argument(metavar="PORT", min=1, max=65535, help="Port that the program listens on.")
    ],
    local_port: Annotated[
        int | None, Option(min=1, max=65535, help="Port on this machine; by default the same.")
    ] = None,
) -> None:
    """Forward a port of a run's main host to this machine, such as TensorBoard's 6006.

    The tunnel stays open until Ctrl-C.
    """
    from fairway_runner.runs.store import FINAL_STATES

    found = arguments.run_store().find(run)
    found.refresh()
    if found.state in FINAL_STATES:
        message = f"{found.id} has ended: nothing listens there any more"
        raise UserError.of("ended-run", message, f"look at its files: fairway fetch {found.id}")
    here = local_port or port
    _require_free(here)
    node = found.engine.main_host(found)
    line = f"http://localhost:{here} is port {port} of {printable(node)}; it ends with Ctrl-C"
    ended = threading.Event()
    threading.Thread(target=_say_once_open, args=(here, line, ended), daemon=True).start()
    try:
        raise Exit(found.engine.shell(node, forward=f"{here}:localhost:{port}"))
    finally:
        ended.set()


def _say_once_open(port: int, line: str, ended: threading.Event) -> None:
    """Prints the line once the tunnel listens at the port, and nothing if it ends first."""
    while not ended.wait(_PAUSE):
        if _taken(port):
            print(line, flush=True)
            return


def _require_free(port: int) -> None:
    if error := _taken(port):
        message = f"port {port} on this machine cannot be used: {error.strerror}"
        raise UserError.of("port-in-use", message, "choose another: --local-port PORT")


def _taken(port: int) -> OSError | None:
    """Returns why the port of this machine is unavailable; None if it is free."""
    import socket

    with socket.socket() as probe:
        # As ssh does: remnants of closed connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


class StartGroup(TyperGroup):
    """Group in which arguments without a command belong to `start`."""

    DEFAULT: ClassVar = "start"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments, as those of `start` unless they begin with a command's name or ask
        for help."""
        helps = self.get_help_option_names(ctx)
        if args and args[0] not in self.commands and args[0] not in helps:
            args = [self.DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Returns completions to the group's commands, and to the first argument of `start`."""
        found: list[Any] = super().shell_complete(ctx, incomplete)
        command: Any = self.commands[self.DEFAULT]
        inner = command.make_context(self.DEFAULT, [], parent=ctx, resilient_parsing=True)
        first = next(each for each in command.params if each.param_type_name == "argument")
        return [*found, *first.shell_complete(inner, incomplete)]


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
    target: arguments.TargetArgument,
    job: Annotated[
        str | None, Option(metavar="JOB", help="Job whose code, environment and container to use.")
    ] = None,
    set_: arguments.SetOption = None,
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
) -> None:
    """Start a session on a target, or attach to the one that is there.

    `fairway dev TARGET` is short for it. While it stays with the session, changes of the code
    are copied there, from here only. Ctrl-C leaves the session running.
    """
    from fairway_cli.ui.dev import follow_session
    from fairway_cli.ui.progress import print_started
    from fairway_runner.dev_sessions import begin

    if json_ and not detach:
        raise UserError.of("bad-value", "--json needs --detach", "add --detach")
    store, found = arguments.run_store(), _target(target)
    options = {"job": job, "set_": set_, "nodes": nodes, "hours": hours, "idle": idle}
    options["jupyter"] = jupyter or None
    # Not by truth value: 0 hours were given explicitly, and must be refused.
    given = {name: value for name, value in options.items() if value is not None}
    run = _there(store, found, given)
    if run is None:
        run, warnings = begin(_wanted(given), found, store)
        warn(*warnings)
    if detach:
        print_started(run, json_=json_)
        return
    # -P: a module in the current folder belongs to the user, not to Fairway.
    program = [sys.executable, "-P", "-m", "fairway_cli.main"]  # for helper processes
    raise Exit(follow_session(run, program, sync=sync))


@dev.command()
def stop(
    run: Annotated[
        str | None,
        Argument(
            metavar="[RUN]",
            help="The session; by default the only one.",
            autocompletion=arguments.complete_sessions,
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """End a session."""
    from fairway_runner.dev_sessions import chosen, remove_host

    session = chosen(arguments.run_store(), run)
    session.cancel()
    remove_host(session)
    facts = {"run_id": session.id, "state": session.state}
    print(json.dumps(facts) if json_ else " ".join(facts.values()))


@dev.command("list")
def list_(json_: arguments.JsonOption = False) -> None:
    """List the sessions of this project that have not ended."""
    from fairway_cli.ui.runs import run_table
    from fairway_runner.dev_sessions import active_sessions
    from fairway_runner.runs.view import run_facts

    sessions, findings = active_sessions(arguments.run_store())
    warn(*findings)
    facts = [run_facts(session) for session in sessions]
    if json_:
        print(json.dumps(facts, indent=1))
    elif facts:
        print(run_table(facts))
    else:
        print("no session is running; start one with: fairway dev TARGET")


@dev.command(hidden=True)
def connect(run: arguments.RunArgument) -> None:
    """Connect ssh to a session, as the ProxyCommand that `fairway dev` writes does."""
    from fairway_runner.dev_sessions import server_command
    from fairway_runner.runs.store import enter

    session = arguments.run_store().find(run)
    raise Exit(enter(session, server_command(session)))


def _target(name: str) -> Target:
    """Returns the target. Raises UserError, which may name a command, if there is none."""
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
    """Returns the newest active session there; None for none. Raises UserError if `given` options
    need another session, and with exit code 5 if sessions could not be examined."""
    from fairway_runner.dev_sessions import active_sessions

    sessions, findings = active_sessions(store, target.name)
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


def _wanted(given: dict[str, Any]) -> SessionRequest:
    """Returns the session of the options. Raises UserError for an invalid `--hours` or `--idle`."""
    from fairway_runner.dev_sessions import SessionRequest

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
    return SessionRequest(**fields)


_MOST_HOURS = 24 * 366
