"""Commands that reach into nodes and running tasks."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import (
    DeadlineOption,
    RunArgument,
    TargetArgument,
    complete_targets,
    engine_of,
)
from fairway_cli.server import run_store
from fairway_core.findings import UserError, printable


def ssh(
    target: TargetArgument,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[NODE] [-- COMMAND…]",
            help="A node and a command; by default a shell on the main host, or on any node.",
            show_default=False,
        ),
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Open a shell on a node of a target, or run a command there."""
    words = words or []
    # Click takes the `--` away, which alone says where the command begins.
    wanted = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    nodes = words[: len(words) - len(wanted)]
    if len(nodes) > 1:
        hint = f"fairway ssh {target} {nodes[0]} -- {' '.join(nodes[1:])}"
        raise UserError.of("many-nodes", f"a shell opens on one node, not on {len(nodes)}", hint)
    node = nodes[0] if nodes else None
    raise Exit(engine_of(target).shell(node, wanted))


def ssh_config(
    targets: Annotated[
        list[str],
        Argument(metavar="TARGET…", help="Names of targets.", autocompletion=complete_targets),
    ],
) -> None:
    """Print the `Host` blocks by which ssh, scp, rsync and VS Code reach targets.

    To use them: fairway ssh-config gpu >~/.ssh/fairway, and `Include fairway` as the first line
    of ~/.ssh/config. Then `ssh gpu` connects to the target's main host or login node.
    """
    from fairway_runner.targets.lookup import find_target, host_block

    print("\n\n".join([host_block(find_target(name)) for name in targets]))


def exec_(
    run: RunArgument,
    words: Annotated[
        list[str], Argument(metavar="-- COMMAND…", help="The command to run.", show_default=False)
    ],
    task: Annotated[
        str | None,
        Option(metavar="TASK", help="The task to join; by default the first that is running."),
    ] = None,
    node: Annotated[int | None, Option(min=0, help="On this node of the task, from 0.")] = None,
    rank: Annotated[int | None, Option(min=0, help="The rank to join, on its node.")] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Run a command in the environment, folder and container of a running task.

    For example `fairway exec RUN -- nvidia-smi`, or `bash`. The process beside which it runs is in
    FAIRWAY_PID: `fairway exec RUN --rank 3 -- sh -c 'py-spy dump --pid $FAIRWAY_PID'`. It exits
    with the command's code.
    """
    from fairway_runner.runs.store import enter

    found = run_store().find(run, going=True)
    raise Exit(enter(found, words, task=task, node=node, rank=rank))


_PAUSE = 0.1  # seconds between two looks whether ssh listens


def tunnel(
    run: RunArgument,
    port: Annotated[
        int, Argument(metavar="PORT", min=1, max=65535, help="Port that the program listens on.")
    ],
    local_port: Annotated[
        int | None,
        Option(min=1, max=65535, help="Port on this machine; by default the same."),
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Forward a port of a run's main host to this machine, such as TensorBoard's 6006.

    The tunnel stays open until Ctrl-C.
    """
    from fairway_runner.runs.store import FINAL_STATES

    found = run_store().find(run)
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
    """Prints the line when the tunnel listens at the port, and not at all where it ends first."""
    while not ended.wait(_PAUSE):
        if _taken(port):
            print(line, flush=True)
            return


def _require_free(port: int) -> None:
    """UserError where something on this machine has the port already."""
    if error := _taken(port):
        message = f"port {port} on this machine cannot be used: {error.strerror}"
        hint = "choose another: --local-port PORT"
        raise UserError.of("port-in-use", message, hint)


def _taken(port: int) -> OSError | None:
    """Why nobody can listen at the port of this machine; None where somebody can."""
    import socket

    with socket.socket() as probe:
        # As ssh does: what is left of connections that have ended is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None
