"""A node's server for the API server: logs, and commands in containers. Their streams are channels
of a WebSocket: 0 stdin, 1 stdout, 2 stderr, 3 the final status, 255 the end of a channel (version
5). A terminal has no separate stderr, and its size is fixed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import pty
import struct
import subprocess
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from fairway_simulator.faults import ENDLESS
from fairway_simulator.http import Answer, Reply, Request, Server, Takeover
from fairway_simulator.kubernetes.api.requests import ApiError

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fairway_simulator.kubernetes.kubelet.pods import PodRunner

    Find = Callable[[str, str], PodRunner | None]
    """Returns the pod of a namespace and name, or None."""


_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSING, _PING, _PONG = 2, 8, 9, 10
_LONGEST = 1 << 26


class WebSocket:
    """A connection that answers the handshake when created; any thread may send."""

    def __init__(
        self, connection: socket.socket, headers: Mapping[str, str], protocol: str
    ) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        key = headers.get("sec-websocket-key", "").encode()
        accepted = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()  # noqa: S324
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accepted}",
            f"Sec-WebSocket-Protocol: {protocol}",
        ]
        self._connection.sendall("\r\n".join([*lines, "", ""]).encode())
        self._reader = connection.makefile("rb")

    def messages(self) -> Iterator[bytes]:
        """Yields the client's messages until it closes or disconnects."""
        parts: list[bytes] = []
        with self._reader:
            while (frame := self._frame()) is not None:
                final, code, data = frame
                if code == _CLOSING:
                    return
                if code == _PING:
                    self._send(_PONG, data)
                elif code != _PONG:
                    parts.append(data)
                    if final:
                        yield b"".join(parts)
                        parts = []

    def send(self, data: bytes) -> bool:
        """Sends a message. Returns False if the client has disconnected."""
        return self._send(_BINARY, data)

    def close(self) -> None:
        """Sends a close frame."""
        self._send(_CLOSING, struct.pack("!H", 1000))

    def _frame(self) -> tuple[bool, int, bytes] | None:
        try:
            head = self._reader.read(2)
            if len(head) < 2:
                return None
            length = head[1] & 0x7F
            if length >= 126:
                wide = 2 if length == 126 else 8
                length = int.from_bytes(self._reader.read(wide), "big")
            if length > _LONGEST:
                return None
            mask = self._reader.read(4) if head[1] & 0x80 else b""
            data = self._reader.read(length)
        except (OSError, ValueError):
            return None
        if len(data) < length:
            return None
        return bool(head[0] & 0x80), head[0] & 0x0F, _unmasked(data, mask)

    def _send(self, code: int, data: bytes) -> bool:
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | code, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | code, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | code, 127, size)
        try:
            with self._lock:
                self._connection.sendall(head + data)
        except (OSError, ValueError):
            return False
        return True


def _unmasked(data: bytes, mask: bytes) -> bytes:
    if not mask or not data:
        return data
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
    return mixed.to_bytes(len(data), "big")


PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PIECE = 1 << 16


@dataclass(frozen=True)
class Command:
    words: Sequence[str]
    environment: Mapping[str, str]
    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool
    endless: bool
    """True if the stream stays open forever, as on some nodes."""


def execute(web: WebSocket, command: Command, stopped: threading.Event) -> None:
    session = _Terminal(command) if command.terminal else _Pipes(command)
    with session.process:
        writers = [
            threading.Thread(target=_pass_on, args=(web, channel, stream), daemon=True)
            for channel, stream in session.outputs()
        ]
        for thread in writers:
            thread.start()
        threading.Thread(target=_feed, args=(web, session), daemon=True).start()
        for thread in writers:
            thread.join()
        code = session.process.wait()
    if command.endless:
        stopped.wait()
        return
    web.send(bytes([_ERROR]) + json.dumps(_status(code)).encode())
    web.close()


class _Pipes:
    def __init__(self, command: Command) -> None:
        self.process = subprocess.Popen(
            command.words,
            env=dict(command.environment),
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE if command.stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE if command.stderr else subprocess.DEVNULL,
            start_new_session=True,
        )

    def outputs(self) -> list[tuple[int, IO[bytes]]]:
        streams = ((_STDOUT, self.process.stdout), (_STDERR, self.process.stderr))
        return [(channel, stream) for channel, stream in streams if stream]

    def write(self, data: bytes) -> None:
        if self.process.stdin:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def end_input(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()


class _Terminal:
    def __init__(self, command: Command) -> None:
        self._master, slave = pty.openpty()
        # setsid makes this the session's controlling terminal: Ctrl-C reaches the command.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command.words],
            env={"TERM": "xterm", **command.environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._writer = os.fdopen(os.dup(self._master), "wb", buffering=0)

    def outputs(self) -> list[tuple[int, IO[bytes]]]:
        return [(_STDOUT, os.fdopen(self._master, "rb", buffering=0))]

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def end_input(self) -> None:
        self._writer.close()


def _pass_on(web: WebSocket, channel: int, stream: IO[bytes]) -> None:
    mark = bytes([channel])
    try:
        with stream:
            while piece := os.read(stream.fileno(), _PIECE):
                web.send(mark + piece)
    except OSError:
        return  # the terminal's last process has ended


def _feed(web: WebSocket, session: _Pipes | _Terminal) -> None:
    """Passes the client's input to the command, and closes it when the client ends it."""
    try:
        for message in web.messages():
            if message[:1] == bytes([_STDIN]):
                session.write(message[1:])
            elif message[:2] == bytes([_CLOSE, _STDIN]):
                session.end_input()
        session.end_input()
    except (OSError, ValueError):
        return  # the command has ended, or does not read


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    code = code if code > 0 else 128 - code
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class NodeServer:
    """The server of all nodes; `find` looks up their pods. The API server authenticates with the
    `token`, or with a certificate that `tls` demands."""

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
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def _handle(self, request: Request) -> Reply:
        try:
            known = self._token and hmac.compare_digest(request.token, self._token)
            if not known and not self.is_secure:  # TLS has verified a certificate
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
        if PROTOCOL not in [each.strip() for each in offered.split(",")]:
            raise ApiError(400, f"unable to upgrade: no protocol of [{offered}] is known here")
        container = pod.container
        if container is None:
            raise ApiError(500, f'Internal error occurred: container not found ("{name}")')
        command = Command(
            [*container.enter(), *request.query.get("command", [])],
            container.order.environment,
            stdin=request.switch("input"),
            stdout=request.switch("output"),
            stderr=request.switch("error"),
            terminal=request.switch("tty"),
            endless=ENDLESS in request.headers,
        )

        def serve(connection: socket.socket) -> None:
            web = WebSocket(connection, request.headers, PROTOCOL)
            execute(web, command, self._stopped)

        return Takeover(serve)
