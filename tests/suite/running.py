"""The program run in this process, and the types of fixtures that run it and make runs."""

import contextlib
import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

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


def command_of(words: list[str]) -> tuple[Any, list[str], set[str]]:
    """Returns the (sub)command that the arguments name, the remaining arguments, and its options.
    Fails for an unknown one."""
    assert words[0] in cli.Commands.names(), f"there is no command `fairway {words[0]}`"
    command, rest = _IMPORTED(words[0]), words[1:]
    while rest and (inner := getattr(command, "commands", {}).get(rest[0])):
        command, rest = inner, rest[1:]
    if rest and not rest[0].startswith("-") and hasattr(command, "DEFAULT"):
        command = command.commands[command.DEFAULT]
    if hasattr(command, "commands") and rest:
        assert rest[0].startswith("-"), f"there is no command `fairway {' '.join(words)}`"
    options = {option for parameter in command.params for option in parameter.opts}
    return command, rest, options | {"--help", "-h"}


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
