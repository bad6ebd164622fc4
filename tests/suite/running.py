"""The program run in this process, and the types of fixtures that run it and make runs."""

import contextlib
import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from fairway_cli import main as cli
from fairway_runner.runs.store import Run

MakeRun = Callable[..., Run]
RunFairway = Callable[..., tuple[int, str, str]]

# A process builds the options of its one command, which takes longer than most commands: here they
# are built once for all tests.
_PROGRAM = get_command(cli.app)
_IMPORTED = staticmethod(cache(cli.Commands.imported))


def run_fairway(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Runs the program in that folder, and returns its exit code, output and errors."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: object = 0
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(cli, "app", _PROGRAM)
        patch.setattr(cli.Commands, "imported", _IMPORTED)
        patch.setattr(sys, "argv", ["fairway", *arguments])
        try:
            cli.main()
        except SystemExit as exit_:
            code = exit_.code or 0
    assert isinstance(code, int), code
    written = (stream.buffer.getvalue() for stream in (out, err))  # type: ignore[attr-defined]
    printed, said = (text.decode(errors="surrogateescape") for text in written)
    return code, printed, said
