"""The node agent's side of a supervisor: starts it on a node, runs commands, ends it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from errno import ENOENT
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Process = subprocess.Popen[bytes]

_PROGRAM = Path(__file__).parent / "supervisor.py"


@dataclass(frozen=True)
class Setting:
    """Setting of a supervisor: the node's host name, and the bind mounts as pairs of source and
    target; `enter` is the command prefix that enters the node's process namespace."""

    hostname: str
    binds: tuple[tuple[str, str], ...]
    enter: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """End of a command: its exit code, or `missing` or `error` if it was not started.

    None of them is set if the supervisor was ended first.
    """

    exit_code: int | None = None
    missing: bool = False
    error: str = ""


@cache
def namespaces() -> tuple[str, ...]:
    """Returns the command prefix that gives a node its own host name and mounts; empty if the
    machine does not allow that."""
    for prefix in (
        ("unshare", "--uts", "--mount"),
        ("unshare", "--user", "--map-current-user", "--keep-caps", "--uts", "--mount"),
    ):
        try:
            tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            return ()
        if tried.returncode == 0:
            return prefix
    return ()


def _program(enter: Sequence[str]) -> Process:
    return subprocess.Popen(
        [*enter, *namespaces(), sys.executable, "-I", "-S", str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


class Supervisor:
    """One supervisor process, started in its place by `start`; runs one command at a time."""

    def __init__(
        self,
        setting: Setting,
        start: Callable[[Callable[[], Process]], Process] = lambda program: program(),
    ) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._process = start(partial(_program, setting.enter))
        first: dict[str, Any] = {}
        if namespaces() and setting.hostname:
            first = {"hostname": setting.hostname, "binds": setting.binds}
            first["processes"] = bool(setting.enter)
        self._send(first)
        self._receive()

    def run(
        self,
        argv: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        stdout: str,
        stderr: str,
        user: int | None = None,
    ) -> Ended:
        """Runs a command and waits for its end; `user` is the id of its user and of its group.
        Paths are as the node sees them."""
        command = {
            "argv": list(argv),
            "cwd": folder,
            "env": dict(environment),
            "stdout": stdout,
            "stderr": stderr,
            "user": user,
        }
        if not self._send(command):
            return Ended()
        answer = self._receive()
        if "exit" in answer:
            return Ended(exit_code=answer["exit"])
        if "error" in answer:
            missing = answer["error"] == ENOENT
            return Ended(missing=missing, error=f"errno {answer['error']}")
        return Ended()

    def end(self) -> None:
        """Makes the supervisor kill its descendants, without waiting; any thread may call this."""
        with self._lock:
            if not self._ended:
                self._ended = True
                assert self._process.stdin
                # It may have been killed already, with the process namespace of a removed node.
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()

    def close(self) -> None:
        """Ends the supervisor, waits until all its processes have ended, and closes its pipes.

        Called by the thread that runs its commands.
        """
        self.end()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def _send(self, message: Mapping[str, Any]) -> bool:
        assert self._process.stdin
        with self._lock:
            if self._ended:
                return False
            try:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                return False
        return True

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        return answer
