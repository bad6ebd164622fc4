"""The entire program: its list of commands, its exit codes in unusual cases, and its imports."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from endings import ends
from programs import finished
from running import RunFairway
from typer.testing import CliRunner

from fairway_cli import commands
from fairway_cli.main import Commands, app
from fairway_core.findings import UserError

pytestmark = pytest.mark.integration

NAMES = Commands.names()


PROGRAM = [sys.executable, "-P", "-m", "fairway_cli.entry"]


def ended(command: list[str | bytes], folder: Path, **environment: str) -> tuple[int, str, str]:
    """Runs a program in a folder and returns its exit code, output and errors."""
    done = finished(command, cwd=folder, env={**os.environ, **environment}, errors="replace")
    return done.returncode, done.stdout, done.stderr


def test_help_lists_every_command_without_heavy_imports() -> None:
    (folder,) = commands.__path__
    modules = {file.stem for file in Path(folder).glob("*.py")}
    assert modules == {"__init__", "arguments", *Commands.MODULES}
    code = (
        "import sys; from fairway_cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print('loaded:', {'pydantic', 'fairway_runner.runs.store'} & {*sys.modules})"
    )
    done = finished([sys.executable, "-c", code], check=True)
    for name in NAMES:
        assert f" {name} " in done.stdout
    assert "Work in a session on a target's nodes, with your code kept" in done.stdout
    assert "loaded: set()" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_has_no_line_breaks_within_paragraphs(name: str) -> None:
    """Otherwise a narrow terminal would show the docstring's line breaks and its own."""
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    assert f"Usage: fairway {name}" in done.output
    command = Commands.imported(name)
    for each in [command, *getattr(command, "commands", {}).values()]:
        for paragraph in (each.help or "").split("\n\n"):
            lines = paragraph.strip().splitlines()
            assert all(line.startswith((" ", "- ", "* ")) for line in lines[1:]), paragraph


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ([], "fairway [OPTIONS] COMMAND [ARGS]..."),
        (["plan"], "fairway plan [OPTIONS] [ENVIRONMENT]"),
        (["nodes", "drain"], "fairway nodes drain [OPTIONS] TARGET NODE…"),
        (["schema"], "fairway schema [OPTIONS] KIND"),
        (["init"], "fairway init [OPTIONS] [DIR]"),
        (["exec"], "fairway exec [OPTIONS] RUN -- COMMAND…"),
    ],
)
def test_usage_line_shows_the_command_as_it_is_typed(words: list[str], usage: str) -> None:
    """A flag shows no value type."""
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="fairway")
    assert f"Usage: {usage} " in done.output.replace("\n", " ")
    assert "--help" in done.output
    assert "bool" not in done.output
    refused = CliRunner().invoke(app, [*words, "--nothing"], prog_name="fairway")
    assert f"Usage: {usage}\n" in refused.output


@pytest.mark.parametrize(
    ("word", "said"), [("chek", "'check'"), ("shwo", ""), ("lst", ""), ("top ", ""), ("xyzzy", "")]
)
def test_unknown_command_is_reported_with_the_usage(word: str, said: str) -> None:
    done = CliRunner().invoke(app, [word])
    assert (done.exit_code, isinstance(done.exception, UserError)) == (2, False)
    assert said in done.output


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("teardown", "fairway destroy"),
        ("down", "fairway pool resize TARGET 0"),
        ("hlep", "fairway --help"),
        ("validate", "fairway check"),
        ("diff", "fairway plan"),
        ("graph", "fairway diagram"),
        ("price", "fairway cost"),
        ("run", "fairway submit JOB"),
        ("ps", "fairway list"),
        ("stop", "fairway cancel RUN"),
        ("launhc", "fairway submit JOB"),
    ],
)
def test_unknown_command_of_another_program_hints_at_the_fairway_command(
    word: str, answer: str
) -> None:
    done = CliRunner().invoke(app, [word])
    assert isinstance(done.exception, UserError)
    (finding,) = done.exception.findings
    assert finding.id == "unknown-command"
    assert finding.hint.startswith(f"type: {answer}")


def into(descriptor: int, command: list[str], stream: str) -> tuple[int, bytes, bytes]:
    """Runs a program with one stream on the descriptor: exit code, output and errors."""
    streams: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        done = subprocess.run(command, **{**streams, stream: descriptor}, timeout=300)
    finally:
        os.close(descriptor)
    return done.returncode, done.stdout or b"", done.stderr or b""


def no_reader() -> int:
    """Returns the writing end of a pipe without a reader."""
    read, write = os.pipe()
    os.close(read)
    return write


@pytest.mark.parametrize("words", [["sizes"], ["--help"], ["--version"]])
def test_output_closed_by_its_reader_exits_with_141_and_no_message(words: list[str]) -> None:
    """Holds also for output that the command writes line by line."""
    command = [sys.executable, "-u", "-m", "fairway_cli.main", *words]
    assert into(no_reader(), command, "stdout") == (141, b"", b"")


@pytest.mark.parametrize("words", [["lst"], ["list", "--bogus"], ["show", "nothing"]])
def test_exit_code_is_2_if_the_error_message_cannot_be_written(words: list[str]) -> None:
    for errors in (no_reader(), os.open("/dev/full", os.O_WRONLY)):
        assert into(errors, [*PROGRAM, *words], "stderr") == (2, b"", b"")


@pytest.mark.parametrize("words", [["check"], ["review"], ["targets", "sync", "--from"]])
def test_file_name_that_is_too_long_is_a_user_error(here: RunFairway, words: list[str]) -> None:
    said = f"error: {'x' * 300} is too long for the name of a file\n"
    assert here(*words, "x" * 300) == (2, "", said)


@pytest.mark.parametrize("option", ["--name", "--location"])
def test_argument_that_is_not_utf8_is_refused(tmp_path: Path, option: str) -> None:
    said = "error: `caf\ufffd` is not UTF-8\n  type it in a UTF-8 locale\n"
    assert ended([*PROGRAM, "init", "new", "--yes", option, b"caf\xe9"], tmp_path) == (2, "", said)
    assert list(tmp_path.iterdir()) == []


ALL = "<&- >&- 2>&-"


@pytest.mark.parametrize(
    ("words", "closed"),
    [*(("sizes", each) for each in ("<&-", ">&-", "2>&-", ALL)), ("list", ALL), ("targets", ALL)],
)
def test_closed_standard_streams_are_tolerated(tmp_path: Path, words: str, closed: str) -> None:
    command = ["bash", "-c", f'"$@" {closed}', "bash", *PROGRAM, words]
    assert ended(command, tmp_path)[::2] == (0, "")


def test_exit_code_survives_errors_that_cannot_be_written_or_encoded(tmp_path: Path) -> None:
    for target in ("/dev/full", "&-"):
        command = ["bash", "-c", f'"$@" 2>{target}', "bash", *PROGRAM, "show", "nothing"]
        assert ended(command, tmp_path)[0] == 2
    environment = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for words, codes in ((["cost", "demo", "--offline"], (0, 2)), (["show", "é—"], (2,))):
        code, _, errors = ended([*PROGRAM, *words], tmp_path, **environment)
        assert code in codes
        assert "Traceback" not in errors


# Text of a module that each Python process with it on its path runs first.
AT_THE_END = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""
AS_IT_BEGINS = """
import os, signal, sys
def look(frame, event, _):
    if frame.f_code.co_name == "get_command":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
sys.setprofile(look)
"""
# Text of a module that the program imports.
AMONG_IMPORTS = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(600)\n"


@pytest.mark.parametrize(
    ("module", "text", "words"),
    [
        ("typer", AMONG_IMPORTS, ["list"]),
        ("jinja2", AMONG_IMPORTS, ["render", "j"]),
        ("sitecustomize", AT_THE_END, ["list"]),
        ("sitecustomize", AS_IT_BEGINS, ["list"]),
    ],
    ids=["import", "late-import", "end", "beginning"],
)
def test_ctrl_c_outside_a_command_exits_with_130_and_no_traceback(
    tmp_path: Path, module: str, text: str, words: list[str]
) -> None:
    (path := tmp_path / "first").mkdir()
    (path / f"{module}.py").write_text(text)
    (tmp_path / "j").write_text("{name: j, command: '{{ name }}'}")
    code, out, errors = ended([*PROGRAM, *words], tmp_path, PYTHONPATH=str(path))
    assert (code, errors) == (130, "")
    assert module == "sitecustomize" or out == ""


def test_ssh_to_several_nodes_suggests_the_given_command(
    here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("ssh", "box", "a", "b", "--", "echo", "a b")
    monkeypatch.setattr("sys.argv", ["fairway", *words])
    ends(here(*words), 2, "fairway ssh box a -- echo 'a b'\n")


def test_ctrl_c_at_a_question_exits_with_130(
    here: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.StringIO):
        """A terminal at which Ctrl-C is typed."""

        isatty = staticmethod(lambda: True)

        def readline(self, _: int = -1) -> str:
            """Raises what Python does."""
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    assert here("init", "lab")[0] == 130


def test_home_directory_missing_or_invalid_is_not_needed(
    tmp_path: Path, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(["env", "-u", "HOME", *PROGRAM, "targets"], tmp_path)[::2] == (0, "")
    for home in ("/dev/null", "/nowhere"):
        monkeypatch.setenv("HOME", home)
        for words in ("list", "targets"):
            assert here(words)[::2] == (0, "")
