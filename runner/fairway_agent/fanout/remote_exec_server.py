"""Runs a command for another node of the cluster, to its end.

It comes by lines on standard input. The first is JSON: the command's `argv`, `cwd` and
`environment`. Then come `beat`, every few seconds, and `signal NAME`; the end of the stream, or
silence, ends the command. So nothing is left running, whatever happens to the host that started it.
None of this is in a command line, where others could read it.

Whatever the command starts carries a mark, by which it is found again even where a daemon has left
the command's session.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fairway_agent import processes

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT = 5.0  # seconds between two
SILENCE = 45.0  # seconds after which the other side is taken for dead

# OpenSSH's own exit code where a connection fails; a program's is told apart from it.
LOST = 255
NOT_LOST = 254


@dataclass(frozen=True)
class Command:
    """Command to run, with its folder and environment."""

    argv: list[str]
    cwd: str
    environment: dict[str, str]

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Command:
        return cls(**json.loads(line))


_MARK = "_FAIRWAY_CHANNEL"
_GRACE = 5.0  # seconds for the command where the other side is gone
_STRAY_GRACE = 2.0  # and for what it leaves running when it has ended
_UNFOUND = 127


class Served:
    """A command of another node."""

    def __init__(self, command: Command) -> None:
        self.mark = f"{_MARK}={secrets.token_hex(8)}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**command.environment, name: value},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.told: float | None = None

    def grace(self) -> float:
        """The seconds that it still has where the other side is gone, since that told it to end."""
        return _GRACE if self.told is None else max(0.0, self.told + _GRACE - time.monotonic())

    def sessions(self) -> set[int]:
        return {self.process.pid} | processes.sessions_with(self.mark)


def serve(served: Served, part: bytes) -> int:
    """The command's exit code, or LOST if the other side is gone; `part` came behind it."""
    wakeup, _ = processes.signal_wakeups(signal.SIGCHLD)
    heard, part = time.monotonic(), _obeyed(served, part)
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while (code := served.process.poll()) is None:
            ready = [key.fileobj for key, _ in selector.select(SILENCE / 3)]
            if wakeup in ready:
                wakeup.recv(1024)
            is_gone = time.monotonic() - heard > SILENCE
            if 0 in ready:
                data, heard = os.read(0, 65536), time.monotonic()
                is_gone, part = not data, _obeyed(served, part + data)
            if is_gone:
                processes.end_all(served.sessions, served.grace())
                return LOST
    processes.end_all(served.sessions, _STRAY_GRACE)
    code = 128 - code if code < 0 else code
    return NOT_LOST if code == LOST else code


def _obeyed(served: Served, text: bytes) -> bytes:
    """Executes the complete lines of the text; returns the rest, a line without its end."""
    *lines, part = text.split(b"\n")
    for line in lines:
        word, _, name = line.decode().strip().partition(" ")
        if word == "signal":
            served.told = time.monotonic() if served.told is None else served.told
            processes.signal_sessions(served.sessions(), signal.Signals[name])
    return part


def _first_line() -> tuple[bytes, bytes]:
    """The first line, which may be long, and what has come behind it."""
    text, data = bytearray(), b""
    while b"\n" not in data:
        data = os.read(0, 65536)
        if not data:
            sys.exit(LOST)
        text += data
    line, _, rest = bytes(text).partition(b"\n")
    return line, rest


def run(adapt: Callable[[Command], Command] = lambda each: each) -> int:
    """Runs the command that comes through standard input, as this node adapts it; its exit code,
    or LOST where the node shuts down meanwhile: a command that saves may end with 0."""
    # Those for the command come through the channel: this one says that the machine shuts down.
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    processes.outlive(signal.SIGINT, signal.SIGHUP)
    line, rest = _first_line()
    command = adapt(Command.parse(line))
    try:
        served = Served(command)
    except OSError as error:
        sys.stderr.write(f"fairway: {error.filename or command.argv[0]}: {error.strerror}\n")
        return _UNFOUND
    code = serve(served, rest)
    return LOST if stops else code


if __name__ == "__main__":
    sys.exit(run())
