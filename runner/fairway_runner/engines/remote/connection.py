"""How commands are run and files copied on the main host of a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fairway_agent.clone import copy
from fairway_core.findings import UserError
from fairway_runner.engines.guarded import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

# Seconds for one command on the host: what takes longer hangs, as file systems do.
COMMAND_TIMEOUT = 300.0
_INTERRUPTED = 130


@dataclass(frozen=True)
class Ended:
    """A command that has ended on the host."""

    code: int
    out: bytes
    err: str


class Connection(Protocol):
    """The main host. Methods raise UserError with exit code 5 where it cannot be reached."""

    @property
    def name(self) -> str:
        """How a person would call the host."""

    has_rsync: bool
    """Whether rsync is on both sides; True as long as nobody has looked."""

    def begin(self) -> None:
        """Connects in the background, where that takes a while; what fails is said by what first
        uses the connection."""

    def run(
        self,
        words: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002
        deadline: float,
        timeout: float = COMMAND_TIMEOUT,
    ) -> Ended:
        """Runs a command to its end; once more where the connection breaks, until `deadline`
        seconds are over: a command must bear being run twice."""

    def upload(self, folder: Path, to: str, *, deadline: float) -> None:
        """Copies what is in a folder of this machine into a folder there, which is made in one
        that exists."""

    def download(self, folder: str, names: Sequence[str], to: Path, *, deadline: float) -> None:
        """Copies files and folders, by their paths below a folder there, to the same below
        one here; those that do not exist are left out."""

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        """Runs a command on this terminal, or a shell without one; returns its exit code.

        With `forward`, `PORT:HOST:PORT` or `PORT:SOCKET`, a port here leads there for as long
        as the command runs, or without one until this is interrupted.
        """


def is_here(host: str) -> bool:
    """Whether a name says that this machine is meant: `localhost`, or the machine's own name.

    An address never does. A tunnel may end at 127.0.0.1, and the private address of a cluster's
    host may be this machine's too, in another network.
    """
    return host in ("localhost", socket.gethostname())


@dataclass
class Here:
    """This machine itself, where the command line is used on the cluster."""

    name: str = "this host"
    has_rsync: bool = False  # nothing is faster here than a plain copy

    def begin(self) -> None:
        """It is here."""

    def run(
        self,
        words: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002
        deadline: float,
        timeout: float = COMMAND_TIMEOUT,
    ) -> Ended:
        """Runs it as a child."""
        return run_program(words, input, timeout, self.name)

    def upload(self, folder: Path, to: str, *, deadline: float) -> None:
        """Copies files."""
        shutil.copytree(folder, to, symlinks=True, copy_function=copy, dirs_exist_ok=True)

    def download(self, folder: str, names: Sequence[str], to: Path, *, deadline: float) -> None:
        """Copies files."""
        for name in names:
            if os.path.lexists(Path(folder, name)):
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                _renew(Path(folder, name), to / name)

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        """Runs it as a child."""
        if forward:
            message = f"{self.name} needs no tunnel"
            raise UserError.of("not-supported", message, f"connect to {forward.partition(':')[2]}")
        return on_terminal(list(words) or [os.environ.get("SHELL", "bash")])


Into = Callable[[], AbstractContextManager[int]]
"""Takes what a program prints, from its beginning at each try: around it, the descriptor to which
it is written."""


def run_program(
    words: Sequence[str], data: bytes, timeout: float, name: str, into: Into | None = None
) -> Ended:
    """Runs a program of this machine; UserError where it takes longer than `timeout` seconds."""
    try:
        with nullcontext(subprocess.PIPE) if into is None else into() as out:
            done = subprocess.run(
                words,
                input=data,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=timeout,
                check=False,
            )
    except subprocess.TimeoutExpired:
        message = f"{name} did not answer within {timeout:g} s"
        hint = "does a file system hang there? try by hand: ls the shared folder"
        raise UserError.of("host-failed", message, hint, exit_code=5) from None
    except FileNotFoundError:
        message = f"`{words[0]}` is not on this machine's PATH"
        raise UserError.of("missing-tool", message, f"install {words[0]}", exit_code=4) from None
    return Ended(done.returncode, done.stdout or b"", done.stderr.decode(errors="replace"))


def on_terminal(words: Sequence[str]) -> int:
    """Runs a program on this terminal, which ends with this process; returns its exit code."""
    held = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    process = subprocess.Popen(guarded(words))
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, held)
    return 128 - code if code < 0 else code


def _renew(source: Path, target: Path) -> None:
    """Copies what has changed as rsync does: a file that comes anew is another one, because a
    person may have fetched the old one, as the same file."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir(exist_ok=True)
        for each in source.iterdir():
            _renew(each, target / each.name)
        return
    if os.path.lexists(target):
        old, new = target.lstat(), source.lstat()
        if (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns):
            return
        target.unlink()
    copy(source, target, follow_symlinks=False)
