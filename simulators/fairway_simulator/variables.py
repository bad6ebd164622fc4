"""The variables by which commands find a stand-in: printed, and kept in a file while it runs.

Several stand-ins may share the file: each adds lines of its own, and takes just these away.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_simulator.private_file import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Change = Callable[[list[str]], list[str]]


@contextmanager
def published(variables: Mapping[str, str], file: Path | None, process: str = "") -> Iterator[None]:
    """Prints the variables, and has them in the file for as long as this takes; there also that
    with the name `process`, which is this process's number."""
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
    """The lines of others: what one that was killed has left is not kept beside this."""
    return [f"{line.rstrip()}\n" for line in lines if _name(line) not in names]


def _rewrite(file: Path, change: Change) -> None:
    """Changes the lines of the file, which is there while it has any; one process at a time."""
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
