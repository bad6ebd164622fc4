"""Keeps a task's secrets out of its log. Standard library only."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO, BinaryIO

MASK = b"***"

_CHUNK = 1 << 16
_FIRST = 16  # bytes of a secret that hardly stand anywhere else
_SHORTEST = 4  # a shorter line of a secret stands in any log by chance
_PATIENCE = 2.0  # seconds for the last words of a task whose processes have all ended


class Mask:
    """Replaces secrets in a stream of bytes, wherever the stream is cut into pieces.

    >>> mask = Mask(["hunter2"])
    >>> mask.feed(b"it is hun"), mask.feed(b"ter2!"), mask.flush()
    (b'it is ', b'***!', b'')
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """`secrets` are their values; each line of one is a secret of its own, because a
        terminal or a launcher changes what stands between lines."""
        words: set[bytes] = set()
        for secret in secrets:
            for text in (secret, secret.strip(), *secret.splitlines()):
                if len(text.strip()) >= _SHORTEST:
                    words.add(text.encode("utf-8", "surrogateescape"))
        self._words = sorted(words)
        self._longest = max(map(len, words), default=0)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes; returns those that can be no part of a secret any more."""
        data = self._held + data
        spans = self._spans(data)
        end = self._undecided(data)
        while spans and spans[-1][1] > end > spans[-1][0]:
            end = spans[-1][0]
        if len(data) - end > 4 * _CHUNK:  # secrets without end: they are masked as they come
            end = len(data)
        self._held = data[end:]
        return _masked(data[:end], spans)

    def flush(self) -> bytes:
        """What was held back, when nothing more is coming."""
        data, self._held = self._held, b""
        return _masked(data, self._spans(data))

    def _undecided(self, data: bytes) -> int:
        """From where on the data may be the beginning of a secret."""
        return min((_open_end(data, word) for word in self._words), default=len(data))

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets stand, in order; those that touch or overlap are one."""
        found = []
        for word in self._words:
            start = data.find(word)
            while start >= 0:
                found.append((start, start + len(word)))
                start = data.find(word, start + 1)
        spans: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if spans and start < spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        return spans


def _open_end(data: bytes, word: bytes) -> int:
    """Where the longest end of the data begins that the word begins with; its length if none
    does. Only places with the word's first bytes are looked at: a word may be very long."""
    start = max(0, len(data) - len(word) + 1)
    while (start := data.find(word[:_FIRST], start)) >= 0:
        if word.startswith(data[start:]):
            return start
        start += 1
    for start in range(max(0, len(data) - _FIRST + 1, len(data) - len(word) + 1), len(data)):
        if word.startswith(data[start:]):
            return start
    return len(data)


def _masked(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    parts, last = [], 0
    for start, end in spans:
        if end > len(data):
            break
        parts += [data[last:start], MASK]
        last = end
    return b"".join([*parts, data[last:]])


class Pump:
    """Copies what a task prints into its log, without its secrets, until the pipe is closed."""

    def __init__(self, printed: IO[bytes], log: BinaryIO, secrets: Iterable[str]) -> None:
        """Takes over both files: what is `printed`, unbuffered or not, and the `log`."""
        self._thread = threading.Thread(
            target=self._copy, args=(printed, log, Mask(secrets)), daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Returns when all that the task printed is in the log."""
        self._thread.join(_PATIENCE)

    @staticmethod
    def _copy(printed: IO[bytes], log: BinaryIO, mask: Mask) -> None:
        with log, printed:
            full = False
            while True:
                data = os.read(printed.fileno(), _CHUNK)
                text = mask.feed(data) if data else mask.flush()
                if not full:
                    try:
                        log.write(text)
                        log.flush()
                    except OSError:  # the disk is full; the task may go on all the same
                        full = True
                if not data:
                    return
