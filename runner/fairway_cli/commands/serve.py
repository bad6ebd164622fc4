"""`fairway serve`: the runs of this project in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairway_cli.commands.arguments import DeadlineOption


def command(
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port on loopback; 0 takes any free one."
        ),
    ] = 0,
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            metavar="PATH",
            help="Listen on a socket file of yours instead, for machines that others use too.",
        ),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser of this machine.")
    ] = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Show the runs of this project in a browser, and answer by REST under /api/v1.

    It listens on loopback alone, and asks for the token in the address that it prints. End it with
    Ctrl-C; no run ends with it.
    """
    from fairway_core.findings import UserError

    if socket is not None and (port or open_):
        message = "--socket excludes --port and --open"
        raise UserError.of("bad-value", message, "a browser opens ports: leave --socket out")
    _require_extra()
    from fairway_runner.runs.store import RunStore
    from fairway_web.server import on_loopback, on_socket, serve

    store = RunStore.here()
    address = on_loopback(port) if socket is None else on_socket(socket)

    def ready() -> None:
        if socket is not None:
            print(f"ready: listening on {socket}; the token is in {store.base / 'serve.json'}")
        else:
            print(f"ready: open {address.login}")
        sys.stdout.flush()
        if open_:
            import threading
            import webbrowser

            # One in the terminal returns when it is closed: it is not waited for.
            threading.Thread(target=webbrowser.open, args=[address.opened], daemon=True).start()

    program = [sys.executable, "-P", "-m", "fairway_cli.entry"]
    serve(store, address, program, ready)


def _require_extra() -> None:
    """UserError with exit code 4 where the packages of the server are not installed."""
    from importlib.util import find_spec

    from fairway_core.findings import UserError

    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        message = f"`fairway serve` needs {' and '.join(missing)}"
        hint = "install what it needs: pip install 'starlette>=1,<2' 'uvicorn>=0.40,<1'"
        raise UserError.of("missing-extra", message, hint, exit_code=4)
