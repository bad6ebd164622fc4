"""WebSockets (RFC 6455), the server's side: as much of them as streams of pods need."""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_LONGEST = 1 << 26


class WebSocket:
    """A connection whose handshake has been answered; sending is for any thread."""

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
        """What the client sends, until it closes or is gone."""
        parts: list[bytes] = []
        with self._reader:
            while (frame := self._frame()) is not None:
                final, code, data = frame
                if code == _CLOSE:
                    return
                if code == _PING:
                    self._send(_PONG, data)
                elif code != _PONG:
                    parts.append(data)
                    if final:
                        yield b"".join(parts)
                        parts = []

    def send(self, data: bytes) -> bool:
        """Sends a message; False where the client is gone."""
        return self._send(_BINARY, data)

    def close(self) -> None:
        """Says that nothing more comes."""
        self._send(_CLOSE, struct.pack("!H", 1000))

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
