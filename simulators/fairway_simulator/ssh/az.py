"""The program `az` of `bastion`: `az network bastion tunnel`, as strict as the real one.

    python az.py STATE network bastion tunnel --name … --port …
    python az.py STATE login
    python az.py STATE extension add --name bastion

Source: Azure/azure-cli-extensions, src/bastion (custom.py and tunnel.py), and azure-cli's
dynamic_install.py for its message about a missing extension. Where versions differ this one takes
the least convenient behaviour: it serves one connection at a time, as before 1.0.1, the first to
come, and only Ctrl-C closes an open session.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

_OPTIONS = {
    "--name",
    "--resource-group",
    "--subscription",
    "--target-ip-address",
    "--resource-port",
    "--port",
    "--timeout",
    "--only-show-errors",
}
_FLAGS = {"--only-show-errors"}
_REQUIRED = ("--name", "--resource-group", "--resource-port", "--port")
_NO_EXTENSION = (
    "The command requires the extension bastion. Unable to prompt for extension install "
    "confirmation as no tty available. Run 'az config set extension.use_dynamic_install="
    "yes_without_prompt' to allow installing extensions without prompt."
)
_BUFFER = 4096


def main(folder: Path, words: list[str]) -> int:
    """Returns the exit code."""
    state = json.loads((folder / "state.json").read_text())
    with (folder / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    if words in (["login"], ["extension", "add", "--name", "bastion"]):
        change = {"signed_in": True} if words == ["login"] else {"extensions": ["bastion"]}
        (folder / "state.json").write_text(json.dumps({**state, **change}))
        return 0
    if words[:3] != ["network", "bastion", "tunnel"]:
        _fail(f"'{' '.join(words[:3])}' is misspelled or not recognized by the system.", 2)
    if "bastion" not in state["extensions"]:
        _fail(_NO_EXTENSION, 2)
    asked = _parsed(words[3:])
    if not state["signed_in"]:
        _fail("Please run 'az login' to setup account.")
    _require_bastion(state, asked)
    if not state["addresses"]:
        _fail(
            "`--target-ip-address` flag cannot be used when IpConnect is not enabled. Please use "
            "--target-resource-id flag instead."
        )
    if asked["--resource-port"] not in ("22", "3389"):
        _fail("Custom ports are not allowed. Allowed ports for Tunnel with IP connect is 22, 3389.")
    server = _bound(int(asked["--port"]))
    _say(f"Opening tunnel on port: {asked['--port']}")
    _say(f"Tunnel is ready, connect on port {asked['--port']}")
    _say("Ctrl + C to close")
    host = state["hosts"].get(asked["--target-ip-address"])
    session = folder / "sessions" / str(os.getpid())
    work = threading.Thread(
        target=_serve, args=(server, host, int(asked["--resource-port"]), session), daemon=True
    )
    work.start()
    # Waits as the extension does, which ignores Ctrl-C if it was started so.
    try:
        while work.is_alive():
            work.join(0.1)
    except KeyboardInterrupt:
        _close(session)
    return 0


def _parsed(words: list[str]) -> dict[str, str]:
    asked: dict[str, str] = {}
    left = list(words)
    while left:
        option = left.pop(0)
        if option not in _OPTIONS:
            _fail(f"unrecognized arguments: {' '.join([option, *left])}", 2)
        if option in _FLAGS:
            continue
        if not left or left[0].startswith("--"):
            _fail(f"argument {option}: expected one argument", 2)
        asked[option] = left.pop(0)
    for option in _REQUIRED:
        if option not in asked:
            _fail(f"the following arguments are required: {option}", 2)
    with suppress(OSError, KeyError):
        socket.inet_aton(asked["--target-ip-address"])
        return asked
    _fail("IP address provided is invalid. Please verify if there are any spaces.")


def _require_bastion(state: dict[str, Any], asked: dict[str, str]) -> None:
    options = ("--subscription", "--resource-group", "--name")
    subscription, group, name = (asked.get(option, "") for option in options)
    parts = state["id"].split("/")
    if subscription != parts[2]:
        _fail(f"The subscription of '{subscription}' doesn't exist in cloud 'AzureCloud'.")
    if (group, name) != (parts[4], parts[-1]):
        _fail(
            f"(ResourceNotFound) The Resource 'Microsoft.Network/bastionHosts/{name}' under "
            f"resource group '{group}' was not found.",
            3,
        )
    if not state["reader"]:
        _fail("(AuthorizationFailed) The client does not have authorization to perform it")


def _bound(port: int) -> socket.socket:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            _fail("Defined port is currently unavailable")
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("localhost", port))
    return server


def _serve(server: socket.socket, host: dict[str, str] | None, port: int, session: Path) -> None:
    time.sleep(0.1)  # like the real command, binds and reports before it listens
    server.listen(100)
    while True:
        client, _ = server.accept()
        session.touch()
        try:
            _relay(client, _connected(host, port))
        except OSError:
            traceback.print_exc()
            client.close()
            session.unlink()
            return


def _connected(host: dict[str, str] | None, port: int) -> socket.socket:
    """Returns a connection to a host, which may be in a network of its own."""
    if host is None:
        raise OSError("the service closed the websocket: no such address in the network")
    if host["namespace"]:
        with open(host["namespace"], "rb") as file:  # noqa: PTH123
            # Changes only this thread's namespace.
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
    return socket.create_connection((host["address"], int(host["port"] or port)), timeout=30)


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Relays until either side has closed, and then closes both, even with bytes in transit."""
    other.settimeout(None)

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BUFFER):
                sink.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    threads = [
        threading.Thread(target=copy, args=pair, daemon=True)
        for pair in ((one, other), (other, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    other.close()


def _close(session: Path) -> NoReturn:
    session.unlink(missing_ok=True)
    sys.stderr.flush()
    os._exit(0)


def _say(text: str) -> None:
    print(f"WARNING: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _fail(text: str, code: int = 1) -> NoReturn:
    print(f"ERROR: {text}", file=sys.stderr, flush=True)  # noqa: T201
    sys.exit(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
