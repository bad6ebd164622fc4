"""Files that a command writes its result to, as `-o` names them: pages and pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fairway_boot.files import write_bytes
from fairway_core.diagram import Picture, graphviz, markdown
from fairway_core.findings import UserError

_OPEN = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def write_output(file: Path, text: str) -> Path:
    """Writes the file atomically, and returns it. Raises UserError if that fails. To a pipe, a
    device or an open file such as /dev/stdout it appends; of a link it writes the target."""
    if file.is_dir():  # `.` has no name to derive a draft's from
        suffix = file.suffix if file.suffix[1:].isalpha() else ""  # `run.1` has none
        hint = f"name a file in it, for example {file / f'result{suffix}'}"
        raise UserError.of("unwritable-file", f"{file} is a directory", hint)
    if str(file) == "-":
        message = "`-` is not a file to write to"
        raise UserError.of("unwritable-file", message, "standard output is /dev/stdout")
    try:
        is_open = str(file).startswith(_OPEN)
        # A draft would replace the device itself, or the file that a shell has opened to append to.
        if is_open or (file.exists() and not file.is_file()):
            with file.open("ab") as stream:
                stream.write(text.encode())
        else:
            write_bytes(Path(os.path.realpath(file)), text.encode())
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise UserError.of("unwritable-file", message, "name another with -o") from None
    return file


_LONGEST = 120.0  # seconds for Graphviz; only a hanging one takes so long


def require_writable(file: Path) -> None:
    """Raises UserError if no picture can be written there, with exit code 4 without Graphviz."""
    if file.suffix not in (".md", ".svg"):
        message = f"{file}: a diagram is Markdown or SVG"
        raise UserError.of("bad-output", message, "use a name that ends in .md or .svg")
    if not file.parent.is_dir():
        raise UserError.of(
            "no-such-folder", f"{file.parent}: no such folder", f"mkdir {file.parent}"
        )
    if file.suffix == ".svg" and shutil.which("dot") is None:
        raise _no_graphviz()


def write_diagram(picture: Picture, file: Path) -> Path:
    """Writes the picture atomically, in the format of the file's suffix."""
    text = svg(picture) if file.suffix == ".svg" else markdown(picture)
    return write_output(file, text)


def _no_graphviz() -> UserError:
    message = "Graphviz makes SVG, and its program `dot` is not on PATH"
    hint = "on Debian: sudo apt-get install graphviz\nor end the file's name in .md"
    return UserError.of("no-graphviz", message, hint, exit_code=4)


def _graphviz_failed(message: str) -> UserError:
    hint = "end the file's name in .md"
    return UserError.of("graphviz-failed", message, hint, exit_code=5)


def svg(picture: Picture) -> str:
    """Returns the picture as SVG. Raises UserError, with exit code 4 if Graphviz is missing."""
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"],
            input=graphviz(picture),
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
        )
    except FileNotFoundError:
        raise _no_graphviz() from None
    except subprocess.TimeoutExpired:
        raise _graphviz_failed(f"dot took longer than {_LONGEST:g} s") from None
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise _graphviz_failed(f"dot: {said}")
    return done.stdout
