"""Connections of Azure's SDKs, direct or through a private network's gateway, and sign-in."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

from fairway_core.findings import UserError
from fairway_runner.engines.outage import LEAST
from fairway_runner.engines.remote.bastion import is_private
from fairway_runner.engines.remote.connection import Command
from fairway_runner.engines.remote.ssh import Ssh, shared

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from urllib3.connection import HTTPConnection

    from fairway_core.target import Target


# It warns on standard error about each broken answer, which `Calls` retries.
logging.getLogger("azure.core.pipeline.transport").setLevel(logging.ERROR)

_FAILED = "open failed: "  # OpenSSH's message if the far side could not connect
_PROHIBITED = "administratively prohibited"


@dataclass
class Gateway:
    """A host that connects to hosts known only in its own network; thread-safe.

    Each connection is `ssh -W HOST:PORT` over the one that commands use anyway. The name is
    resolved on the far side, as with a SOCKS proxy (`ssh -D`), whose port would let everybody on
    this machine into that network.
    """

    ssh: Ssh
    deadline: float

    def reach(self) -> None:
        """Connects to it, again if the connection has ended, or raises UserError."""
        check = lambda: [*self.ssh.command(), "-O", "check", "--", self.ssh.name]  # noqa: E731
        self.ssh.run_with_retry(check, Command((), b"", self.deadline))

    def connect(self, host: str, port: int) -> socket.socket:
        """Returns a connection to a port of a host, which is at its end at once if it fails."""
        self.reach()
        there = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*self.ssh.command(), "-W", there, "--", self.ssh.name],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this program, which may end with a message
            )
        # The process ends with its connection; waiting for it leaves no zombie.
        threading.Thread(target=process.wait, name="gateway", daemon=True).start()
        return ours

    def failure_since(self, before: str) -> str:
        """Returns why the far side could not connect since ssh had said that, or "". Raises
        UserError if it forwards nothing."""
        lines = [line for line in self.ssh.said[len(before) :].splitlines() if _FAILED in line]
        why = lines[-1].rpartition(_FAILED)[2] if lines else ""
        if _PROHIBITED in "".join(lines):
            message = f"{self.ssh.name} does not forward connections ({lines[-1].strip()})"
            hint = "its sshd needs `AllowTcpForwarding yes`, the default; or name another gateway"
            raise UserError.of("no-forwarding", message, hint, exit_code=5)
        return why.removeprefix("connect failed: ")


HOSTS, KEPT = 4, 64
"""Numbers of hosts, and of connections to each, in an adapter's pool; the default is ten each."""


def adapter_for(target: Target, url: str, deadline: float) -> HTTPAdapter:
    """Returns the HTTP adapter for a service of the target: through the gateway if its name has no
    private address here. Raises UserError if the gateway cannot be reached."""
    where = urlsplit(url)
    gateway = target.gateway if target.gateway and target.gateway.host else None
    if gateway is None or where.hostname is None or _is_near(where.hostname):
        # A proxy from the environment is used as usual; loopback needs no gateway.
        return HTTPAdapter(pool_connections=HOSTS, pool_maxsize=KEPT)
    way = Gateway(shared(gateway.host, gateway.user, target.ssh_route), deadline)
    way.reach()
    return _GatewayAdapter(way)


def _is_near(host: str) -> bool:
    """Returns True in the network or its VPN, where the service's name has a private address."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(is_private(each) or ipaddress.ip_address(each).is_loopback for each in found)


class _GatewayAdapter(HTTPAdapter):
    """Adapter that sends requests through a gateway, with TLS up to the service."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        super().__init__(pool_connections=HOSTS, pool_maxsize=KEPT)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {
            "http": self._through(HTTPConnectionPool, 80),
            "https": self._through(HTTPSConnectionPool, 443),
        }

    def _through(self, pool: Any, usual: int) -> Any:
        """Returns a class of urllib3's pools whose connections are those of the gateway."""

        def connect(connection: HTTPConnection) -> socket.socket:
            port, timeout = int(connection.port or usual), connection.timeout
            found = self._gateway.connect(connection.host, port)
            found.settimeout(timeout if isinstance(timeout, int | float) else None)
            return found

        own = type("Connection", (pool.ConnectionCls,), {"_new_conn": connect})
        return type("Pool", (pool,), {"ConnectionCls": own})

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        """Sends like HTTPAdapter, but ignores proxies: the gateway replaces them."""
        before = self._gateway.ssh.said
        try:
            return super().send(request, *args, **{**options, "proxies": {}})
        except requests.ConnectionError as error:
            why = self._gateway.failure_since(before)
            if not why:
                raise
            message = f"{self._gateway.ssh.name} cannot connect to it: {why}"
            raise requests.ConnectionError(message, request=request) from error


_BLOCK = 1 << 20  # bytes read from a file at a time
_TIMEOUT = 60.0  # seconds without receiving a byte


def token_credential() -> TokenCredential:
    """Returns the credential of the user signed in on this machine, or of the machine itself."""
    from azure.identity import DefaultAzureCredential

    # It would print every credential that it tried; a refusal is reported in one message instead.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return DefaultAzureCredential()


def transport(target: Target, url: str, deadline: float) -> RequestsTransport:
    """Returns the transport to a target's service; no connection waits beyond the `deadline`."""
    session, adapter = requests.Session(), adapter_for(target, url, deadline)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return RequestsTransport(
        session=session,
        session_owner=True,
        connection_timeout=min(15.0, max(LEAST, deadline)),
        read_timeout=min(_TIMEOUT, max(LEAST, deadline)),
        connection_data_block_size=_BLOCK,
    )


# Errors of Microsoft Entra ID that signing in again fixes, and a retry does not. Source:
# learn.microsoft.com/entra/identity-platform/reference-error-codes.
_EXPIRED = re.compile(r"AADSTS(?:70043|700082|70008|50173|700084)\b")
_INSTALL_CLI = (
    "install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli\nthen:"
)
_MORE_ASKED = re.compile(r"AADSTS(?:50076|50078|50079|53003)\b")


def sign_in_again(error: object) -> str:
    """Returns why the user has to sign in again; "" for any other failure.

    The SDK tries several credentials and begins its message with those that are not set up: the
    Azure CLI's error stands far behind.

    >>> sign_in_again("Attempted credentials: …\\n\\tAzureCliCredential: AADSTS70043: …")
    'your sign-in to Azure has expired (AADSTS70043)'
    """
    text = str(error)
    if found := _EXPIRED.search(text):
        return f"your sign-in to Azure has expired ({found[0]})"
    if found := _MORE_ASKED.search(text):
        return f"your organization requires more before it signs you in ({found[0]})"
    return ""


def how_to_sign_in(error: object, usual: str = "az login") -> str:
    """Returns how to sign in: the `usual` way, after installing the Azure CLI if the SDK did not
    find it.

    >>> how_to_sign_in("\\tAzureCliCredential: Please run 'az login'")
    'az login'
    """
    return f"{_INSTALL_CLI}\n{usual}" if "Azure CLI not found" in str(error) else usual


def why_not_signed_in(error: object) -> str:
    """Extracts the reason from the SDK's account of all the credentials that it has tried: the
    answer of Microsoft Entra ID to one of them, or else the Azure CLI's message.

    >>> why_not_signed_in("Attempted credentials: …\\n\\tAzureCliCredential: Please run 'az login'")
    "Please run 'az login'"
    """
    lines = str(error).strip().splitlines() or ["no reason was given"]
    for sign in ("AADSTS", "AzureCliCredential: "):
        if found := next((line.strip() for line in lines if sign in line), ""):
            return found.partition("Credential: ")[2][:300] or found[:300]
    return lines[0][:300]
