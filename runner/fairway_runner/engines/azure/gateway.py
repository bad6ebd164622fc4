"""The connections of Azure's SDKs: straight, or through the gateway of a private network.

Blob storage and Batch with private endpoints alone are closed to a laptop. The gateway is a host
inside of the network that ssh leads to; tokens are still had straight from Entra ID.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from fairway_runner.engines.remote.forwarding import Forwarding, through_gateway
from fairway_runner.engines.remote.ways import is_private

if TYPE_CHECKING:
    from fairway_core.target import Target

HOSTS, KEPT = 4, 64
"""How many hosts, and connections to each, an adapter keeps: by default ten are kept."""

_PORTS = {"http": 80, "https": 443}


def adapter_for(target: Target, url: str, deadline: float) -> HTTPAdapter:
    """What makes the connections to a service of the target.

    They go through the target's gateway where the name of the service has a public address here,
    or none: the service itself has a private one alone. UserError where the gateway cannot be
    reached.
    """
    where = urlsplit(url)
    gateway = target.gateway if target.gateway and target.gateway.host else None
    if gateway is None or where.hostname is None or _is_near(where.hostname):
        # A proxy that the environment names is used as ever; loopback needs none.
        return HTTPAdapter(pool_connections=HOSTS, pool_maxsize=KEPT)
    way = through_gateway(target, gateway, deadline)
    way.open(where.hostname, where.port or _PORTS.get(where.scheme, _PORTS["https"]))
    return _GatewayAdapter(way)


def _is_near(host: str) -> bool:
    """Whether this machine is inside of the network, or its VPN: there the name of a service has
    a private address. An address as it is says itself where it is."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(is_private(each) or ipaddress.ip_address(each).is_loopback for each in found)


class _GatewayAdapter(HTTPAdapter):
    """Sends requests over the sockets of a gateway; TLS is still spoken with the service."""

    def __init__(self, gateway: Forwarding) -> None:
        self._gateway = gateway
        super().__init__(pool_connections=HOSTS, pool_maxsize=KEPT)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """See HTTPAdapter."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._gateway)

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        """See HTTPAdapter. A proxy of the environment is not asked: the gateway is the way."""
        mark = self._gateway.mark()
        try:
            return super().send(request, *args, **{**options, "proxies": {}})
        except requests.ConnectionError as error:
            why = self._gateway.failure_since(mark)
            if not why:
                raise
            message = f"{self._gateway.name} cannot connect to it: {why}"
            raise requests.ConnectionError(message, request=request) from error


def _pools(gateway: Forwarding) -> dict[str, Any]:
    """The pools of urllib3 by scheme, whose connections are those of the gateway."""

    class Http(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _timed(gateway.connect(self.host, int(self.port or 80)), self)

    class Https(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _timed(gateway.connect(self.host, int(self.port or 443)), self)

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}


def _timed(connection: socket.socket, of: HTTPConnection) -> socket.socket:
    timeout = of.timeout
    connection.settimeout(timeout if isinstance(timeout, int | float) else None)
    return connection
