"""The program as a whole: its list of commands is true, and costs little."""

import importlib
import inspect
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fairway_cli.main import Commands, app


@pytest.mark.parametrize("name", Commands.COMMANDS)
def test_the_help_in_the_table_is_the_commands_own(name: str) -> None:
    module = importlib.import_module(f"{Commands.PACKAGE}.{name.replace('-', '_')}")
    if hasattr(module, "app"):
        assert module.app.info.help.partition("\n")[0] == Commands.COMMANDS[name]
    else:
        assert (inspect.getdoc(module.command) or "").partition("\n")[0] == Commands.COMMANDS[name]


def test_every_module_with_a_command_is_in_the_table() -> None:
    package = importlib.import_module(Commands.PACKAGE)
    (folder,) = package.__path__
    from pathlib import Path

    for file in Path(folder).glob("*.py"):
        if file.stem in ("__init__", "arguments"):
            continue
        module = importlib.import_module(f"{Commands.PACKAGE}.{file.stem}")
        if hasattr(module, "command") or hasattr(module, "app"):
            assert file.stem.replace("_", "-") in Commands.COMMANDS, file.name


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from fairway_cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = [m for m in sys.modules if m.startswith('fairway_cli.commands.')]\n"
        "print('loaded:', loaded, 'pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    for name in Commands.COMMANDS:
        assert f" {name} " in done.stdout
    assert "loaded: [] False" in done.stdout


@pytest.mark.parametrize("name", Commands.COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    assert f"Usage: fairway {name}" in done.output


def test_a_misspelt_command_is_answered_with_the_near_one() -> None:
    done = CliRunner().invoke(app, ["chek"])
    assert done.exit_code == 2
    assert "'check'" in done.output


def test_completion_knows_the_commands_and_their_options() -> None:
    for typed, expected in (("che", "check"), ("check --str", "--strict")):
        environment = {"_FAIRWAY_COMPLETE": "complete_bash", "COMP_WORDS": f"fairway {typed}"}
        environment["COMP_CWORD"] = str(len(typed.split()))
        done = CliRunner().invoke(app, [], env=environment, prog_name="fairway")
        assert expected in done.output


def test_a_reader_that_goes_away_is_no_error_of_the_program() -> None:
    """Also where the output is written line by line, within the command."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "fairway_cli.main", "sizes"],
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=300,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_said_and_not_traced() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-m", "fairway_cli.main", "sizes"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    assert done.returncode == 5
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", Commands.COMMANDS)
def test_a_paragraph_of_help_fills_the_terminal(name: str) -> None:
    """A line break of a docstring is none in the help: a narrow terminal would show both."""
    command = Commands.imported(name)
    for each in [command, *getattr(command, "commands", {}).values()]:
        for paragraph in (each.help or "").split("\n\n"):
            lines = paragraph.strip().splitlines()
            assert all(line.startswith((" ", "-", "*")) for line in lines[1:]), paragraph
