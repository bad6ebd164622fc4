"""Errors of the program and its exit codes: the one place that catches and prints them."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from fairway_core.findings import UserError, format_finding, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_core.findings import Finding

# Errors of a disk without room.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_to_end(program: Callable[[], object]) -> None:
    """Runs the function; a user's error is printed as its findings and sets the exit code."""
    _open_streams()
    try:
        try:
            program()
        finally:
            sys.stdout.flush()
    except UserError as error:
        _end(error.exit_code, *map(format_finding, error.findings))
    except KeyboardInterrupt:
        # Node.js got the signal too, so that jsii fails to stop it.
        sys.unraisablehook = lambda _: None
        _end(130)
    except BrokenPipeError as error:
        _end_unread(error)
    except SystemExit as end:
        # Typer and rich exit with 1 if the output's reader is gone.
        if any(isinstance(each, BrokenPipeError) for each in _behind(end)):
            _end_unread(end)
        # And where Ctrl-C is the answer to a question.
        if end.code == 1 and any(isinstance(each, KeyboardInterrupt) for each in _behind(end)):
            _end(130)
        raise
    except OSError as error:
        if any(map(_is_usage, _behind(error))):
            _end_unread(error)
        _end_failed(error)
        raise
    except UnicodeEncodeError:
        _end_not_text(sys.argv)
        raise


def warn(*findings: Finding) -> None:
    """Prints findings to standard error, next to the output of a command."""
    for finding in findings:
        print(format_finding(finding), file=sys.stderr, flush=True)  # noqa: T201


def _end_failed(error: OSError) -> None:
    """Ends the program for the system's error about a file or a full disk; else returns."""
    if error.errno == errno.ENAMETOOLONG:
        name = printable(str(error.filename or "a name"))
        _end(2, f"error: {name} is too long for the name of a file")
    if isinstance(error, FileNotFoundError) and error.filename:
        from fairway_runner.runs.records import removed

        if (gone := removed(Path(os.fsdecode(error.filename)))) is not None:
            _end(gone.exit_code, *map(format_finding, gone.findings))
    if error.filename is not None:
        _end(5, f"error: {printable(str(error.filename))}: {error.strerror}")
    if error.errno in _NO_ROOM:
        _end(5, f"error: the output cannot be written: {error.strerror}")


def _end_not_text(words: list[str]) -> None:
    """Ends the program if an argument is not valid text in this locale: it may name an existing
    file, but cannot be printed."""
    for word in words:
        if any("\udc80" <= letter <= "\udcff" for letter in word):
            _end(2, f"error: `{printable(word)}` is not UTF-8", "  type it in a UTF-8 locale")


def _end_unread(error: BaseException) -> NoReturn:
    """Ends the program after its reader went away (`fairway logs RUN | head`): with 2 if it was
    about to print a mistake on the command line, or else with 141, as for a broken pipe."""
    if any(map(_is_usage, _behind(error))):
        _end(2)
    _end(141)


def _is_usage(error: BaseException) -> bool:
    """Returns True for Typer's error for a command line; Typer may not be importable."""
    return any(each.__name__ == "UsageError" for each in type(error).__mro__)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, and those that were being handled when it was raised."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__context__


def _open_streams() -> None:
    """Makes output always possible: closed streams discard it, and streams that cannot encode a
    letter (LC_ALL=C) print its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # open() returns the lowest free descriptor: that of the closed stream.
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end(code: int, *lines: str) -> NoReturn:
    """Ends the program with its message, if anybody can read that."""
    try:
        for line in lines:
            print(line, file=sys.stderr)  # noqa: T201
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
    sys.exit(code)


def _discard(stream: TextIO) -> None:
    """Points the stream at /dev/null: flushing its rest would fail again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
