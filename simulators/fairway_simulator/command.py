"""Commands that start stand-ins: options, signals, running in the background, and variables."""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import shlex
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Change = Callable[[list[str]], list[str]]

Number = TypeVar("Number", int, float)


def in_background(serve: Callable[[Callable[[], None]], int]) -> tuple[int, int]:
    """Runs `serve` in a process and a session of its own, which reports when it is ready; returns
    the process's id and 0 then, or how it ended before."""
    reader, writer = os.pipe()
    # Its own children keep its standard error: a reader of ours would never see the end of it.
    said = tempfile.TemporaryFile()  # noqa: SIM115 - shared with the child process
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, stream in enumerate((nowhere, nowhere, said.fileno())):
            os.dup2(stream, number)
        code = serve(lambda: os.close(writer) if os.write(writer, b"ready") else None)
        raise SystemExit(code)
    os.close(writer)
    is_ready = os.read(reader, 5) == b"ready"
    sys.stderr.flush()
    said.seek(0)
    sys.stderr.buffer.write(said.read())
    if not is_ready:
        return child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return child, 0


FILE = Path("sim.env")
"""Default file for the variables of a stand-in in the background."""

_LOOK = 0.5  # seconds
_TAKEN = (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL)


@dataclass(frozen=True)
class StandInCommand:
    """The command `bin/NAME`, which runs the package `module`; its file of variables has the
    process id as `process`."""

    name: str
    module: str

    @property
    def process(self) -> str:
        """Variable of the process id, such as BATCH_SIMULATOR_PID."""
        return f"{self.name.upper().replace('-', '_')}_PID"

    def parser(self, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"bin/{self.name}", description=description, epilog=epilog
        )
        parser.add_argument(
            "--env",
            type=Path,
            metavar="FILE",
            help="also write the variables there, once it is ready",
        )
        parser.add_argument(
            "--background",
            action="store_true",
            help=f"return when it is ready, with the variables in --env ({FILE}); "
            "the same command again finds it",
        )
        return parser

    def run(
        self,
        options: argparse.Namespace,
        serve: Callable[[Callable[[], None]], int],
        following: str,
    ) -> int:
        """Serves until a signal; in the background, returns once `serve` calls its argument. Prints
        the next commands: `following`, in which FILE is that of --env."""
        if options.background:
            options.env = options.env or FILE
        if options.env and (wrong := _not_writable(options.env)):
            return self.say(f"--env {options.env}: {wrong}", 2)
        if not options.background:
            return serve(lambda: None)
        process, given = self._running(options.env)
        if not process:
            process, code = in_background(serve)
            if code:
                return code
        elif given == sys.argv[1:]:
            self.say(f"it runs already, as process {process}", 0)
        else:
            told = f"{options.env} tells of one that runs, with other options"
            return self.say(f"{told}; end it with: kill {process}, or name another --env", 2)
        file = options.env if options.env.is_absolute() else f"./{options.env}"
        following = following.replace("FILE", shlex.quote(str(file)))
        sys.stdout.write(f"next: {following}; and to end it: kill {process}\n")
        return 0

    def say(self, message: str, code: int) -> int:
        """Prints why it ends, and returns the exit code."""
        sys.stderr.write(f"{self.name}: {message}\n")
        return code

    def not_started(self, error: OSError, port: int) -> int:
        """Prints why it does not start, and returns the exit code."""
        if error.errno in _TAKEN:
            return self.say(f"port {port}: {error.strerror}; choose another with --port", 2)
        return self.say(str(error), 5)

    def _running(self, file: Path) -> tuple[int, list[str]]:
        """Returns the running process that the file names, and its options; else 0."""
        with suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, value = line.removeprefix("export ").partition("=")
                if name == self.process:
                    words = Path("/proc", value, "cmdline").read_bytes().decode().split("\0")[:-1]
                    # ValueError: another program has the pid by now.
                    return int(value), words[words.index(self.module) + 1 :]
        return 0, []


def interrupted() -> Callable[[], None]:
    """Returns a function that waits for SIGINT or SIGTERM, which are caught from now on: called
    before anything is started, so that an early signal works like a later one."""
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())

    def wait() -> None:
        # The kernel may deliver a signal to another thread: this one notices when it wakes.
        while not ending.wait(_LOOK):
            continue

    return wait


def number(least: Number, most: Number) -> Callable[[str], Number]:
    """Returns the type of an option: a number of the type of these bounds, and within them."""

    def parse(text: str) -> Number:
        with suppress(ValueError):
            if least <= (found := type(least)(text)) <= most:
                return found
        raise argparse.ArgumentTypeError(f"a number from {least} to {most}, not {text!r}")

    return parse


def folder(text: str) -> Path:
    """Parses an option: a folder, created if missing, for its owner alone."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError as error:
        raise argparse.ArgumentTypeError(f"{text} is a file; name a folder") from error
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error
    return path


def _not_writable(file: Path) -> str:
    """Returns why the variables cannot be written there; "" if they can."""
    if file.is_dir():
        return "it is a folder; name a file"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}"
    return "" if os.access(file.parent, os.W_OK) else f"{file.parent} cannot be written to"


def write_private(file: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    Path(name).replace(file)


def make_own(folder: Path) -> bool:
    """Creates a folder that nobody else can look into; returns False if an existing one is another
    user's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    return folder.is_dir() and not folder.is_symlink() and facts.st_uid == os.getuid()


@contextmanager
def published(variables: Mapping[str, str], file: Path | None, process: str = "") -> Iterator[None]:
    """Prints the variables, and keeps them in the file within the block, together with the process
    id as `process`."""
    printed = _lines(variables)
    lines = [*printed, *_lines({process: str(os.getpid())} if process else {})]
    if file:
        names = tuple(_name(line) for line in lines)
        _rewrite(file, lambda there: [*_others(there, names), *lines])
    sys.stdout.write("".join(printed))
    sys.stdout.flush()
    try:
        yield
    finally:
        if file:
            _rewrite(file, lambda there: [line for line in there if line not in lines])


def _lines(variables: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]


def _name(line: str) -> str:
    return line.partition("=")[0]


def _others(lines: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the lines of others, without those that a killed process has left."""
    return [f"{line.rstrip()}\n" for line in lines if _name(line) not in names]


def _rewrite(file: Path, change: Change) -> None:
    """Changes the lines of the file, and removes an empty one; one process at a time."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        there = file.read_text().splitlines(keepends=True) if file.exists() else []
        if lines := change(there):
            write_private(file, "".join(lines))
        else:
            file.unlink(missing_ok=True)
    finally:
        os.close(folder)
