"""What the commands that start stand-ins have in common: options, signals, and the background."""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_simulator.background import in_background

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path("sim.env")
"""Where a stand-in in the background writes its variables by default."""

_TAKEN = (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL)


@dataclass(frozen=True)
class StandInCommand:
    """`bin/NAME`, which runs the package `module`; its file of variables has the process's number
    as `process`."""

    name: str
    module: str

    @property
    def process(self) -> str:
        """As BATCH_SIMULATOR_PID."""
        return f"{self.name.upper().replace('-', '_')}_PID"

    def parser(self, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
        """A parser with the options that all of them have."""
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
        """Serves until a signal; in the background, returns when `serve` has called what it is
        given, and says what may be typed next: `following`, in which FILE is that of --env."""
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
        """Says why it ends, and returns the exit code."""
        sys.stderr.write(f"{self.name}: {message}\n")
        return code

    def not_started(self, error: OSError, port: int) -> int:
        """Says why it does not start; the exit code."""
        if error.errno in _TAKEN:
            return self.say(f"port {port}: {error.strerror}; choose another with --port", 2)
        return self.say(str(error), 5)

    def _running(self, file: Path) -> tuple[int, list[str]]:
        """The process that the file names, and its options, where it runs; else 0."""
        with suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, value = line.removeprefix("export ").partition("=")
                if name == self.process:
                    words = Path("/proc", value, "cmdline").read_bytes().decode().split("\0")[:-1]
                    # ValueError: another program has the number by now.
                    return int(value), words[words.index(self.module) + 1 :]
        return 0, []


def interrupted() -> threading.Event:
    """Set by SIGINT and SIGTERM from now on. Asked for before anything is started, so that a
    signal that comes early ends it as a later one does."""
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    return ending


def number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option: a number within these bounds."""

    def parse(text: str) -> int:
        with suppress(ValueError):
            if least <= int(text) <= most:
                return int(text)
        raise argparse.ArgumentTypeError(f"a number from {least} to {most}, not {text!r}")

    return parse


def folder(text: str) -> Path:
    """The type of an option: a folder, made where it is not there, for its owner alone."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError as error:
        raise argparse.ArgumentTypeError(f"{text} is a file; name a folder") from error
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error
    return path


def _not_writable(file: Path) -> str:
    """Why the variables cannot be written there; "" where they can."""
    if file.is_dir():
        return "it is a folder; name a file"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}"
    return "" if os.access(file.parent, os.W_OK) else f"{file.parent} cannot be written to"
