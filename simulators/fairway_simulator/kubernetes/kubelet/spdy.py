"""SPDY/3.1 in a WebSocket, the server's side: what `kubectl port-forward` speaks.

The frames are those of the SPDY protocol, draft 3; windows are not kept, as the client keeps none.
"""

from __future__ import annotations

import struct
import threading
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_simulator.kubernetes.kubelet.websocket import WebSocket

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive")
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(
        struct.pack("!I", len(word)) + word.encode()
        for word in (*_WORDS.split(), *_MORE_WORDS, "origin")
    )
    + _REST.encode()
)
"""What headers are compressed with."""

_CONTROL = 0x8003
_SYN_STREAM, _SYN_REPLY, _RESET, _PING = 1, 2, 3, 6
_FIN = 1


class Stream:
    """One stream: what comes in is given to `received`, b"" at its end."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.received: Callable[[bytes], None] = lambda _: None
        self._session = session
        self._number = number

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Sends data; the last of them end this side of the stream."""
        flags = _FIN if last else 0
        size = struct.pack("!I", len(data))
        head = struct.pack("!I", self._number) + bytes([flags]) + size[1:]
        self._session.send(head + data)


class Session:
    """The streams of a connection; `opened` is told of each that the client begins."""

    def __init__(self, web: WebSocket, opened: Callable[[Stream], None]) -> None:
        self._web = web
        self._opened = opened
        self._streams: dict[int, Stream] = {}
        self._lock = threading.Lock()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        self._web.send(frame)

    def serve(self) -> None:
        """Reads frames until the client goes."""
        pending = b""
        for message in self._web.messages():
            pending += message
            while len(pending) >= 8:
                length = int.from_bytes(pending[5:8], "big")
                if len(pending) < 8 + length:
                    break
                self._frame(pending[:8], pending[8 : 8 + length])
                pending = pending[8 + length :]
        for stream in list(self._streams.values()):
            stream.received(b"")

    def _frame(self, head: bytes, body: bytes) -> None:
        if not head[0] & 0x80:
            self._data(int.from_bytes(head[:4], "big"), body, last=bool(head[4] & _FIN))
            return
        kind = int.from_bytes(head[2:4], "big")
        if kind == _SYN_STREAM:
            self._open(body, last=bool(head[4] & _FIN))
        elif kind == _PING:
            self.send(head + body)
        elif kind == _RESET:
            stream = self._streams.pop(int.from_bytes(body[:4], "big"), None)
            if stream:
                stream.received(b"")

    def _data(self, number: int, data: bytes, *, last: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if data:
            stream.received(data)
        if last:
            stream.received(b"")

    def _open(self, body: bytes, *, last: bool) -> None:
        number = int.from_bytes(body[:4], "big")
        stream = Stream(self, number, _headers(self._inflate.decompress(body[10:])))
        self._streams[number] = stream
        with self._lock:
            packed = self._deflate.compress(struct.pack("!I", 0))
            packed += self._deflate.flush(zlib.Z_SYNC_FLUSH)
            reply = struct.pack("!I", number) + packed
            size = struct.pack("!I", len(reply))
            self.send(struct.pack("!HHB", _CONTROL, _SYN_REPLY, 0) + size[1:] + reply)
        self._opened(stream)
        if last:
            stream.received(b"")


def _headers(block: bytes) -> dict[str, str]:
    count, place = int.from_bytes(block[:4], "big"), 4
    words = []
    for _ in range(2 * count):
        length = int.from_bytes(block[place : place + 4], "big")
        words.append(block[place + 4 : place + 4 + length].decode())
        place += 4 + length
    return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}
