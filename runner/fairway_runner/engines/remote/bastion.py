"""The way to a host, as OpenSSH's settings: direct, through jump hosts, or through an Azure
Bastion.

For a Bastion ssh runs this file itself as its ProxyCommand:

    python bastion.py BASTION_ID ADDRESS PORT

It starts `az network bastion tunnel` on a free port of this machine, connects to that, and relays
between that connection and its own input and output. `az` ends with it, whatever ends it: a process
of its own waits for that. The standard library alone, so that it starts at once.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from fairway_core.target import SshRoute

# Seconds until ssh gives up on a new connection: az has to start, ask Azure, and connect.
_BASTION_TIMEOUT = 150

# Addresses that are only reachable from their own networks: RFC 1918, and RFC 6598's for providers.
_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")

# Not compiled here: only errors need it.
_FAULT = r"^error: (.+) \[([a-z-]+)\]\r?\n  (.+?)\r?$"


def settings(ssh_route: SshRoute | None, host: str) -> dict[str, str]:
    """Returns ssh's settings, by name, for the way to `host`."""
    if ssh_route is None:
        return {}
    if ssh_route.jump is not None:
        return {"ProxyJump": ",".join(ssh_route.jump)}
    assert ssh_route.bastion is not None, "one of the two ways"
    name = ssh_route.bastion.rpartition("/")[2]
    # -I and -S: no variable or package of the user changes its behavior, or slows it down.
    words = shlex.join([sys.executable, "-I", "-S", __file__, ssh_route.bastion])
    return {
        "ProxyCommand": f"{words.replace('%', '%%')} %h %p",
        # Environments reuse addresses, and each recreated host has a new key.
        "HostKeyAlias": f"{host}.{name}",
        "StrictHostKeyChecking": "accept-new",
        "ConnectTimeout": str(_BASTION_TIMEOUT),
    }


def options(found: Mapping[str, object]) -> list[str]:
    """Returns settings of ssh as arguments of its command line."""
    return [word for name, value in found.items() for word in ("-o", f"{name}={value}")]


def require_tools(ssh_route: SshRoute | None) -> None:
    """Raises UserError if this machine lacks programs for the way."""
    if ssh_route is not None and ssh_route.bastion is not None and shutil.which("az") is None:
        from fairway_core.findings import UserError  # the program itself has no packages

        fault = NO_AZ
        raise UserError.of(fault.id, fault.message, fault.hint, exit_code=4)


def fault_in(said: str) -> Fault | None:
    """Finds the error reported by the program between ssh and az in ssh's output."""
    match = re.search(_FAULT, said, re.MULTILINE)
    return Fault(match[2], match[1], match[3]) if match else None


def hint_for(host: str, ssh_route: SshRoute | None) -> str:
    """Returns advice for a host that does not answer; `{ssh}` is the command to try by hand."""
    if ssh_route is None and is_private(host):
        return (
            f"{host} is a private address, reached only from its own network: is your VPN up?\n"
            "for a Bastion or jump hosts: set `access.bastion` or `access.ssh_route` in the\n"
            "environment, deploy it, then: fairway targets sync (docs/private-cluster.md)\n"
            "try: {ssh}"
        )
    if ssh_route is not None and ssh_route.jump is not None:
        return "are it and the jump hosts up, and do they admit you? try: {ssh}"
    return "is it up, and the network or tunnel to it? try: {ssh}"


def is_private(host: str) -> bool:
    """Returns True if a host is given by an address that only its own network knows."""
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in ipaddress.ip_network(each) for each in _PRIVATE)


# A file for errors: a persistent master connection has no standard error.
FAULTS = "FAIRWAY_BASTION_FAULTS"
START = 120.0  # seconds until az listens: it may load slowly, and asks Azure first
_CLEAN_UP = 10.0  # seconds for az to close its session after a signal
_LAST_WORDS = 5.0  # seconds for az to report why it closed a connection
_TRIES = 3  # if another program takes the port before az does
_BUFFER = 65536

_ID = (
    "/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft.Network/bastionHosts/([^/]+)"
)


@dataclass(frozen=True)
class Fault:
    """Reason why there is no connection, and a hint; printed like Fairway's own errors."""

    id: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"error: {self.message} [{self.id}]\n  {self.hint}"


NO_AZ = Fault(
    "missing-tool",
    "this host is reached through an Azure Bastion, and `az` is not on this machine's PATH",
    "install the Azure CLI, then: az extension add --name bastion; az login",
)

# Errors that no retry fixes: a pattern in az's output, and the fault.
_KNOWN = (
    (
        r"requires the extension bastion|'bastion' is misspelled|not in the 'az network'",
        "missing-tool",
        "the Azure CLI lacks its extension `bastion`",
        "add it: az extension add --name bastion",
    ),
    (
        r"az login|AADSTS\d+|refresh token has expired",
        "not-signed-in",
        "the Azure CLI is not signed in",
        "sign in: az login",
    ),
    (
        r"was not found|could not be found|doesn't exist",
        "no-bastion",
        "you have no access to a Bastion {bastion}",
        "is it deployed, and is the right account signed in? az account show; fairway targets sync",
    ),
    (
        r"AuthorizationFailed|does not have authorization",
        "forbidden",
        "you may not use the Bastion {bastion}",
        "you need the role Reader on it and on the node: `access.admins` assigns both",
    ),
    (
        r"IpConnect is not enabled|Native Client must be enabled|SKU must be Standard",
        "no-tunnels",
        "the Bastion {bastion} allows no tunnels to addresses",
        "its owner can turn them on: SKU Standard, native client support, IP-based connection",
    ),
)


def explain(said: str, words: list[str]) -> Fault:
    """Explains the failure from az's output and its command line."""
    bastion = words[words.index("--name") + 1]
    for pattern, id_, message, hint in _KNOWN:
        if re.search(pattern, said):
            return Fault(id_, message.format(bastion=bastion), hint)
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
    why = errors[0].removeprefix("ERROR:").strip() if errors else "it gave no reason"
    hint = f"is the host up? by hand: {shlex.join(words)}"
    return Fault("no-connection", f"az network bastion tunnel: {why}", hint)


def tunnel_words(bastion_id: str, address: str, port: str, local: int) -> list[str]:
    """Returns the command line of az. Raises ValueError for an invalid id of a Bastion."""
    match = re.fullmatch(_ID, bastion_id, re.IGNORECASE)
    if match is None:
        raise ValueError(bastion_id)
    way = dict(zip(("--subscription", "--resource-group", "--name"), match.groups(), strict=True))
    way |= {"--target-ip-address": address, "--resource-port": port, "--port": str(local)}
    return ["az", "network", "bastion", "tunnel", *(word for pair in way.items() for word in pair)]


# Az has its own process group (-m): it is a script around another program, and ended by Ctrl-C.
_GUARD = f"""set -m
"$@" </dev/null &
exec >/dev/null 2>&1
read -r _
kill -INT -- "-$!"
for ((i = 0; i < {_CLEAN_UP:.0f}0; i++)); do
    kill -0 -- "-$!" || exit
    sleep 0.1
done
kill -KILL -- "-$!"
"""


class Tunnel:
    """A running `az`, its output, and the connection through it once there is one."""

    def __init__(self, words: list[str]) -> None:
        """Starts it next to a shell that ends it once the pipe to that is closed, which the kernel
        does if this process is killed."""
        self.said = b""
        self._errors, errors = os.pipe()
        self._guard = subprocess.Popen(
            ["bash", "-c", _GUARD, "bash", *words],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
        os.close(errors)

    def connect(self, local: int) -> socket.socket | None:
        """Returns the connection to its port; None if az or ssh has ended, or time is over."""
        import socket  # printing the settings needs none

        deadline = time.monotonic() + START
        while time.monotonic() < deadline and not _has_ended(0):
            # No probe before: az takes the first connection as the real one.
            with suppress(OSError):
                found = socket.create_connection(("127.0.0.1", local), timeout=10)
                if found.getsockname() != found.getpeername():
                    found.settimeout(None)
                    return found
                found.close()  # connected to itself: both ends are ports of this machine
            if not self._listen_for(0.1):
                return None
        return None

    def drain(self) -> None:
        """Reads the output of az until it ends."""
        while self._listen_for(None):
            pass

    def end(self) -> None:
        """Ends it."""
        assert self._guard.stdin is not None, "it was started with a pipe"
        self._guard.stdin.close()

    def _listen_for(self, seconds: float | None) -> bool:
        """Reads its output for a while; returns False when it has ended."""
        if not select.select([self._errors], [], [], seconds)[0]:
            return True
        data = os.read(self._errors, _BUFFER)
        self.said = (self.said + data)[-_BUFFER:]
        return bool(data)


def _has_ended(descriptor: int) -> bool:
    """Returns True if nothing writes to a pipe or socket any more; more to read may be left."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def relay(tunnel: Tunnel, connection: socket.socket) -> int:
    """Copies both ways until one side has ended; returns how many bytes came from there."""
    import socket

    done = threading.Event()
    received = 0

    def send() -> None:
        with suppress(OSError):
            while data := os.read(0, _BUFFER):
                connection.sendall(data)
        done.set()

    def receive() -> None:
        nonlocal received
        with suppress(OSError):
            while data := connection.recv(_BUFFER):
                received += len(data)
                view = memoryview(data)
                while view:
                    view = view[os.write(1, view) :]
        done.set()

    threads = [threading.Thread(target=each, daemon=True) for each in (tunnel.drain, send, receive)]
    for thread in threads:
        thread.start()
    done.wait()
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    if not received and not _has_ended(0):
        threads[0].join(_LAST_WORDS)
    return received


def main(bastion_id: str, address: str, port: str) -> int:
    """Returns the exit code; errors are printed to standard error."""
    import socket

    # Ctrl-C at ssh's terminal is not meant for this process: ssh itself ends it. Handled rather
    # than ignored, because az would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    with suppress(OSError):
        os.setsid()
    if shutil.which("az") is None:
        return _fail(NO_AZ)
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            local = probe.getsockname()[1]
        words = tunnel_words(bastion_id, address, port, local)
        tunnel = Tunnel(words)
        connection = tunnel.connect(local)
        received = relay(tunnel, connection) if connection else 0
        tunnel.end()
        if received:
            return 0
        said = tunnel.said.decode(errors="replace")
        if connection or "port is currently unavailable" not in said:
            break
    # If ssh was told to end, nobody reads the message.
    return 1 if _has_ended(0) else _fail(explain(said, words))


def _fail(fault: Fault) -> int:
    print(fault, file=sys.stderr)  # noqa: T201
    if file := os.environ.get(FAULTS):
        with suppress(OSError), open(file, "a", encoding="utf-8") as log:  # noqa: PTH123
            log.write(f"{fault}\n")
    return 4 if fault.id == "missing-tool" else 5


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: bastion.py BASTION_ID ADDRESS PORT")
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a thread may still be waiting forever
