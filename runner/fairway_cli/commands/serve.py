"""`fairway serve`: the runs of this project in a browser."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from fairway_cli.commands import arguments
from fairway_core.findings import UserError


def serve(
    port: Annotated[
        int,
        Option("--port", "-p", min=0, max=65535, help="Port on loopback; 0 takes any free one."),
    ] = 0,
    socket: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Listen on a Unix socket of yours instead, on machines that others use too.",
        ),
    ] = None,
    open_: Annotated[
        bool, Option("--open", help="Open the page in the browser of this machine.")
    ] = False,
    behind_proxy: Annotated[
        bool,
        Option(
            "--behind-proxy",
            help=(
                "Serve several people: a proxy signs them in with Entra ID, and passes on "
                "their tokens."
            ),
        ),
    ] = False,
    public_url: Annotated[
        str | None, Option(metavar="URL", help="The URL that people open, https://…")
    ] = None,
    tenant: Annotated[
        str | None, Option(metavar="ID", help="The Entra ID tenant in which they sign in.")
    ] = None,
    audience: Annotated[
        str | None, Option(metavar="ID", help="The client ID of the application they sign in to.")
    ] = None,
    address: Annotated[
        str | None, Option(metavar="IP", help="Listen on this address instead of loopback.")
    ] = None,
) -> None:
    """Show the runs of this project in a browser, with a REST API under /api/v1.

    It listens on loopback alone, and asks for the token in the address that it prints. While it
    runs, it begins next steps. End it with Ctrl-C; no run ends with it.

    With --behind-proxy it verifies the token of each person instead, and goes by their app role:
    Reader, Submitter or Operator. URL, tenant and audience may stand below `serve:` in
    fairway.yaml, which also lists the targets that Submitters may use.
    """
    settings = {"url": public_url, "tenant": tenant, "audience": audience}
    named = address is not None or any(settings.values())
    at_port = bool(port) or address is not None
    for is_wrong, message, hint in (
        (
            behind_proxy and (open_ or (socket is not None and at_port)),
            "--behind-proxy cannot be combined with --open, nor --socket with --port or --address",
            "people open the address of the proxy",
        ),
        (
            not behind_proxy and named,
            "--address, --public-url, --tenant and --audience are for --behind-proxy",
            "without it the server listens on loopback alone: add --behind-proxy, or leave them",
        ),
        (
            not behind_proxy and socket is not None and (port or open_),
            "--socket cannot be combined with --port or --open",
            "a browser opens ports: leave --socket out",
        ),
    ):
        if is_wrong:
            raise UserError.of("bad-value", message, hint)
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        message = f"`fairway serve` needs {', '.join(missing)}"
        wanted = " ".join(f"'{_PACKAGES[name]}'" for name in missing)
        hint = f"install what it needs: pip install {wanted}"
        raise UserError.of("missing-extra", message, hint, exit_code=4)
    if behind_proxy:
        _serve_shared(settings, socket, address, port)
    else:
        _serve_one(socket, port, open_)


_PACKAGES = {
    "fastapi": "fastapi>=0.133,<1",
    "starlette": "starlette>=1,<2",
    "uvicorn": "uvicorn>=0.40,<1",
    "jwt": "pyjwt>=2.14,<3",
}


# Variables of WSL and of VS Code's connections, where the browser is one of another system.
_ELSEWHERE = ("WSL_DISTRO_NAME", "VSCODE_IPC_HOOK_CLI")


def _serve_one(socket: Path | None, port: int, open_: bool) -> None:
    from fairway_web.server import on_loopback, on_socket, serve

    store = arguments.run_store()
    address = on_loopback(port) if socket is None else on_socket(socket)
    until_end = ExitStack()

    def ready() -> None:
        if socket is not None:
            print(f"ready: listening on {socket}; the token is in {store.base / 'serve.json'}")
        else:
            print(f"ready: open {address.login}")
        sys.stdout.flush()
        if open_ and not any(name in os.environ for name in _ELSEWHERE):
            import threading
            import webbrowser

            # A browser in the terminal only returns when it is closed: do not wait for it.
            page = until_end.enter_context(address.open_page(store.base))
            threading.Thread(target=webbrowser.open, args=[page], daemon=True).start()

    with until_end:
        serve(store, address.listener, address.sign_in, ready, address)


def _serve_shared(
    settings: dict[str, str | None], socket: Path | None, address: str | None, port: int
) -> None:
    from fairway_web.auth import behind_proxy
    from fairway_web.server import LOOPBACK, listening, serve, socket_file

    store = arguments.run_store()
    sign_in = behind_proxy(store, settings)
    if socket is not None:
        listener, listens_on = socket_file(socket, for_group=True), str(socket)
    else:
        listener = listening(address or LOOPBACK, port)
        host = f"[{address}]" if address and ":" in address else address or LOOPBACK
        listens_on = f"http://{host}:{listener.getsockname()[1]}"

    def ready() -> None:
        print(f"ready: listening on {listens_on} for the proxy of {sign_in.url}", flush=True)

    serve(store, listener, sign_in, ready)
