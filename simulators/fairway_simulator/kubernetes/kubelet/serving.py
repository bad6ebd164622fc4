"""Answers of a node to the API server: logs, and streams into its containers."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from fairway_simulator.faults import ENDLESS
from fairway_simulator.http import Answer, Reply, Request, Server, Takeover
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.kubelet import executing
from fairway_simulator.kubernetes.kubelet.executing import WebSocket

if TYPE_CHECKING:
    import socket
    import ssl
    import threading
    from collections.abc import Callable

    from fairway_simulator.kubernetes.kubelet.pods import PodRunner

    Find = Callable[[str, str], PodRunner | None]
    """The pod of a namespace and a name."""


class NodeServer:
    """Listens for all nodes; `find` knows their pods. The API server comes with the `token`, or
    with a certificate that `tls` demands."""

    def __init__(
        self,
        find: Find,
        token: str,
        stopped: threading.Event,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._find = find
        self._token = token
        self._stopped = stopped
        self.is_secure = tls is not None
        self._server = Server(self._handle, tls)
        self.port = self._server.port

    def start(self) -> None:
        """Answers from now on."""
        self._server.start()

    def stop(self) -> None:
        """Answers no more."""
        self._server.stop()

    def _handle(self, request: Request) -> Reply:
        try:
            known = self._token and hmac.compare_digest(request.token, self._token)
            if not known and not self.is_secure:  # TLS has asked for a certificate
                raise ApiError(401, "Unauthorized")
            match request.parts:
                case ["containerLogs", namespace, name, _]:
                    return self._log(self._pod(namespace, name))
                case ["exec", namespace, name, container]:
                    return self._exec(request, self._pod(namespace, name), container)
            raise ApiError(404, f"{request.path} is not known here")
        except ApiError as error:
            return Answer(error.status(), error.code)

    def _pod(self, namespace: str, name: str) -> PodRunner:
        found = self._find(namespace, name)
        if found is None:
            raise ApiError(404, f'pod "{name}" not found')
        return found

    def _log(self, pod: PodRunner) -> Answer:
        body = pod.log.read_bytes() if pod.log.exists() else b""
        return Answer(body=body, headers={"Content-Type": "text/plain"})

    def _exec(self, request: Request, pod: PodRunner, name: str) -> Takeover:
        offered = request.headers.get("sec-websocket-protocol", "")
        if executing.PROTOCOL not in [each.strip() for each in offered.split(",")]:
            raise ApiError(400, f"unable to upgrade: no protocol of [{offered}] is known here")
        container = pod.container
        if container is None:
            raise ApiError(500, f'Internal error occurred: container not found ("{name}")')
        command = executing.Command(
            [*container.enter(), *request.query.get("command", [])],
            container.order.environment,
            stdin=request.switch("input"),
            stdout=request.switch("output"),
            stderr=request.switch("error"),
            terminal=request.switch("tty"),
            endless=ENDLESS in request.headers,
        )

        def serve(connection: socket.socket) -> None:
            web = WebSocket(connection, request.headers, executing.PROTOCOL)
            executing.execute(web, command, self._stopped)

        return Takeover(serve)
