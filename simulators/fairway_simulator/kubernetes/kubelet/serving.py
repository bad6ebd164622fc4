"""Answers of a node to the API server: logs, and streams into its containers."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from fairway_simulator.faults import ENDLESS
from fairway_simulator.http import Answer, Reply, Request, Server, Stream, Takeover
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.kubelet import executing
from fairway_simulator.kubernetes.kubelet.executing import WebSocket

if TYPE_CHECKING:
    import socket
    import ssl
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fairway_simulator.kubernetes.kubelet.pods import PodRunner

    Find = Callable[[str, str], PodRunner | None]
    """The pod of a namespace and a name."""


_PIECE = 1 << 16
_PAUSE = 0.1  # seconds between two looks at a log that is followed


def read(
    file: Path,
    *,
    tail: int | None,
    most: int | None,
    follow: bool,
    is_over: Callable[[], bool],
    stopped: threading.Event,
) -> Iterator[bytes]:
    """The log in pieces; one that is followed ends when its container has."""
    if not file.exists():
        return
    with file.open("rb") as stream:
        if tail is not None:
            stream.seek(_start(file, tail))
        while True:
            over = is_over()  # first: what is written after it is read below
            while piece := stream.read(_PIECE if most is None else min(_PIECE, most)):
                if most is not None:
                    most -= len(piece)
                yield piece
            if not follow or over or most == 0 or stopped.wait(_PAUSE):
                return


def _start(file: Path, lines: int) -> int:
    """The offset at which the last lines begin."""
    if lines <= 0:
        return file.stat().st_size
    with file.open("rb") as stream:
        place = stream.seek(0, 2)
        data = b""
        while place > 0 and data.count(b"\n") <= lines:
            step = min(_PIECE, place)
            place -= step
            stream.seek(place)
            data = stream.read(step) + data
    kept = data.splitlines(keepends=True)[-lines:]
    return place + len(data) - sum(map(len, kept))


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
                case ["containerLogs", namespace, name, container]:
                    return self._log(request, self._pod(namespace, name), container)
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

    def _log(self, request: Request, pod: PodRunner, container: str) -> Stream:
        for name in ("sinceSeconds", "sinceTime", "timestamps"):
            if request.option(name) not in ("", "false"):
                raise ApiError(400, f"{name}: this stand-in keeps no times of lines")
        tail, most = request.option("tailLines"), request.option("limitBytes")
        pieces = read(
            pod.log(container, previous=request.switch("previous")),
            tail=int(tail) if tail else None,
            most=int(most) if most else None,
            follow=request.switch("follow"),
            is_over=lambda: pod.is_over(container),
            stopped=self._stopped,
        )
        return Stream(pieces, "text/plain")

    def _exec(self, request: Request, pod: PodRunner, name: str) -> Takeover:
        offered = request.headers.get("sec-websocket-protocol", "")
        if executing.PROTOCOL not in [each.strip() for each in offered.split(",")]:
            raise ApiError(400, f"unable to upgrade: no protocol of [{offered}] is known here")
        container = pod.container(name)
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
