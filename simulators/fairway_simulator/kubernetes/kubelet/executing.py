"""`exec`: a command in a container, with its streams as channels of a WebSocket.

Channels: 0 stdin, 1 stdout, 2 stderr, 3 how it ended, 4 the terminal's size, 255 the end of one of
them (version 5). A terminal has no stderr of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_simulator.kubernetes.kubelet.websocket import WebSocket

PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECE = 1 << 16


@dataclass(frozen=True)
class Command:
    """What is run, and which of its streams the client wants."""

    words: Sequence[str]
    environment: Mapping[str, str]
    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool
    endless: bool
    """Whether the stream stays open for ever, as some nodes' do."""


def execute(web: WebSocket, command: Command, stopped: threading.Event) -> None:
    """Runs a command until it ends, and says how."""
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

    def resize(self, size: Mapping[str, int]) -> None:
        """It has no size."""


class _Terminal:
    def __init__(self, command: Command) -> None:
        self._master, slave = pty.openpty()
        # setsid takes the terminal as the session's own: Ctrl-C then reaches the command.
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

    def resize(self, size: Mapping[str, int]) -> None:
        packed = struct.pack("HHHH", size.get("Height", 0), size.get("Width", 0), 0, 0)
        fcntl.ioctl(self._writer, termios.TIOCSWINSZ, packed)


def _pass_on(web: WebSocket, channel: int, stream: IO[bytes]) -> None:
    mark = bytes([channel])
    try:
        with stream:
            while piece := os.read(stream.fileno(), _PIECE):
                web.send(mark + piece)
    except OSError:
        return  # a terminal whose last user has gone


def _feed(web: WebSocket, session: _Pipes | _Terminal) -> None:
    """Gives the command what the client sends; its input ends with the client at the latest."""
    try:
        for message in web.messages():
            if message[:1] == bytes([_STDIN]):
                session.write(message[1:])
            elif message[:1] == bytes([_SIZE]):
                session.resize(json.loads(message[1:]))
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
