"""`fairway tunnel`: a port of a run's main host, here."""

from __future__ import annotations

import threading
from typing import Annotated

from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, RunArgument

_PAUSE = 0.1  # seconds between two looks whether ssh listens


def command(
    run: RunArgument,
    port: Annotated[
        int, Argument(metavar="PORT", min=1, max=65535, help="Port that the program listens on.")
    ],
    local_port: Annotated[
        int | None,
        Option("--local-port", min=1, max=65535, help="Port on this machine; by default the same."),
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Forward a port of a run's main host to this machine, such as TensorBoard's 6006.

    The tunnel stays open until Ctrl-C.
    """
    from fairway_core.findings import UserError, printable
    from fairway_runner.runs.store import FINAL_STATES, RunStore

    found = RunStore.here().find(run)
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
    from fairway_core.findings import UserError

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
