"""The documents' commands are run, or checked against the help.

A block that begins with ```console has lines `$ command`, each followed by its output; `…` stands
for any text. `$ cd FOLDER` and `$ source FILE` alone apply to the commands after them, and
`$ command &` runs until the document's end, once it has printed `ready`. A block whose first line
has title="PATH" is a file that the reader writes. The blocks of one document run one after the
other in one folder. A block of ```bash needs Azure, a network or time: it is not run, and its
commands are checked against the programs' own help.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from running import command_of
from waiting import without_delays

from fairway_simulator.kubernetes import missing

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```', re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"`(?:bin/)?fairway ([a-z][^`]*)`")
_ASSIGNMENT = re.compile(r"\w+=")
# The commands of cdktf, whose help is not available everywhere.
_CDKTF = {"deploy", "destroy", "diff", "output", "synth"}


@dataclass(frozen=True)
class _File:
    """A file shown in a document, by its path relative to the reader's folder."""

    path: str
    text: str


@dataclass(frozen=True)
class _Command:
    """A command line and its documented output."""

    line: str
    printed: str


def _steps(document: Path) -> list[_File | _Command]:
    """Returns the files and commands of the document, in order."""
    found: list[_File | _Command] = []
    for block in _BLOCK.finditer(document.read_text(encoding="utf-8")):
        if block["title"]:
            found.append(_File(block["title"], block["body"]))
        elif block["kind"] == "console":
            found += _commands(block["body"])
    return found


def _commands(body: str) -> Iterator[_Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, printed = part.partition("\n")
        while line.endswith("\\"):
            more, _, printed = printed.partition("\n")
            line = line[:-1] + more.strip()
        yield _Command(line, printed)


def _unrun_commands(document: Path) -> Iterator[list[str]]:
    """Yields the arguments of each command line in the document's ```bash blocks."""
    for block in _BLOCK.finditer(document.read_text(encoding="utf-8")):
        if block["kind"] == "bash" and not block["title"]:
            for line in block["body"].replace("\\\n", " ").splitlines():
                for part in re.split(r"\s(?:\|\|?|&&|;|>)\s", line):
                    words = shlex.split(part, comments=True)
                    while words and _ASSIGNMENT.match(words[0]):
                        words.pop(0)
                    if words:
                        yield words


def _inline_commands(document: Path) -> Iterator[list[str]]:
    """Yields the arguments of each `fairway` command that the document's text mentions."""
    text = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    for command in _INLINE.findall(text):
        yield shlex.split(command.replace("\n", " "))


def _name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def _pattern(printed: str) -> str:
    return re.escape(printed.strip()).replace("…", ".*?")


# Their commands start simulators, servers and sweeps.
_LONG = ("dev", "kubernetes", "merge-a-sweep", "score-and-serve", "serve", "steps", "tour")
_RUN = [
    pytest.param(document, marks=[pytest.mark.nightly] if document.stem in _LONG else [])
    for document in DOCUMENTS
    if any(isinstance(step, _Command) for step in _steps(document))
]


@pytest.mark.timeout(3600)  # a document has dozens of commands
@pytest.mark.parametrize("document", _RUN, ids=_name)
def test_docs_console_commands_print_the_documented_output(document: Path, tmp_path: Path) -> None:
    _require_namespaces(document)
    for entry in ROOT.iterdir():
        if entry.name not in (".fairway", "cdktf.out", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # `true` takes the place of a browser.
    known = {**os.environ, "COLUMNS": "200", "PATH": path, "BROWSER": "true"}
    known |= _home_with_a_key(tmp_path / "home")
    reader = _Reader(tmp_path, tmp_path, known)
    try:
        for step in _steps(document):
            reader.follow(step)
    finally:
        reader.leave()


def _home_with_a_key(home: Path) -> dict[str, str]:
    """Makes a home directory like a reader's, with an SSH key for `fairway init`."""
    (home / ".ssh").mkdir(parents=True)
    key = home / ".ssh/id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return {"HOME": str(home), "XDG_CACHE_HOME": cache}


def _require_namespaces(document: Path) -> None:
    """Skips a document whose cluster cannot run on this machine, which is a failure in CI."""
    steps = [step.line for step in _steps(document) if isinstance(step, _Command)]
    if any("bin/kubernetes-simulator" in line for line in steps) and (lacking := missing()):
        pytest.skip(lacking)


@dataclass
class _Reader:
    """A reader who follows a document: in a folder, with the variables set so far."""

    root: Path
    folder: Path
    variables: dict[str, str]
    background: list[subprocess.Popen[str]] = field(default_factory=list)

    def follow(self, step: _File | _Command) -> None:
        """Performs one step, whose result must be as documented."""
        if isinstance(step, _File):
            self._write(step)
        elif step.line.startswith("cd "):
            self.folder = self.folder / step.line.removeprefix("cd ")
            assert self.folder.is_dir(), step.line
        elif step.line.startswith("source "):
            printed = self._run(f"set -a; {step.line}; env -0")
            self.variables |= dict(line.split("=", 1) for line in printed.split("\0") if line)
        elif step.line.endswith(" &"):
            self._start(step.line.removesuffix(" &"))
        else:
            printed = without_delays(self._run(step.line)).strip()
            fits = re.fullmatch(_pattern(step.printed), printed, re.DOTALL)
            assert fits or not step.printed.strip(), f"$ {step.line}\nprinted:\n{printed}"

    def leave(self) -> None:
        """Ends the processes that still run."""
        for process in self.background:
            process.terminate()
            process.communicate()
        with contextlib.suppress(FileNotFoundError):
            found = re.findall(r"_SIMULATOR_PID=(\d+)", (self.root / "sim.env").read_text())
            for process in map(int, found):
                os.kill(process, signal.SIGTERM)

    def _write(self, file: _File) -> None:
        folder = (self.folder / file.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        assert folder.resolve().is_relative_to(self.root.resolve()), "it is the repository's"
        (self.folder / file.path).write_text(file.text)

    def _run(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
            env=self.variables,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}"
        return done.stdout

    def _start(self, line: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.variables,
        )
        self.background.append(process)
        said: list[str] = []
        while not any(text.startswith("ready") for text in said):
            text = process.stdout.readline()
            assert text, f"$ {line} &\n{''.join(said)}"
            said.append(text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_docs_bash_commands_have_known_names_and_options(document: Path) -> None:
    for words in _unrun_commands(document):
        program = words[0].removeprefix("bin/")
        if program == "fairway":
            _parse(words[1:])
        elif words[0].startswith("bin/"):
            assert (ROOT / words[0]).is_file(), words
        elif program == "cdktf":
            assert words[1] in _CDKTF, words
    for words in _inline_commands(document):
        _check_options(words)


def _parse(words: list[str]) -> None:
    """Parses the arguments as the program does, without running anything."""
    command, rest, _ = command_of(words)
    if "--" in rest:  # the rest belongs to another program
        rest = rest[: rest.index("--") + 2]
    command.make_context(" ".join(words), list(rest))


def _check_options(words: list[str]) -> None:
    _, rest, options = command_of(words)
    for word in rest:
        if word == "--":
            break
        if word.startswith("-"):
            assert word.partition("=")[0] in options, f"fairway {' '.join(words)}: {word}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek", "demo"], "no command"),
        (["render"], "Missing"),
        (["check", "demo", "--strickt"], "No such option"),
        (["targets", "sink"], "no command"),
        (["list", "extra"], "unexpected extra"),
    ],
)
def test_docs_command_check_finds_unknown_commands_and_options(words: list[str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        _parse(words)


def test_docs_option_check_finds_an_unknown_option_in_the_text() -> None:
    _check_options(["submit", "--watch", "-s", "params.x=1"])
    with pytest.raises(AssertionError, match="--wach"):
        _check_options(["submit", "--wach"])
