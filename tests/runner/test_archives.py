"""What is sent to hosts and nodes: the same for the same files, and content with a bare Python."""

from __future__ import annotations

import ast
import io
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from fairway_agent.main import OLDEST
from fairway_runner.engines import archives

if TYPE_CHECKING:
    from pathlib import Path


def sources() -> dict[str, bytes]:
    """The Python files of the bundle."""
    _, packed = archives.agent()
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        return {
            member.name: files.extractfile(member).read()  # type: ignore[union-attr]
            for member in files
            if member.name.endswith(".py")
        }


def test_the_name_is_that_of_the_content() -> None:
    name, packed = archives.agent()
    archives.agent.cache_clear()
    again, repacked = archives.agent()
    assert (name, packed) == (again, repacked)


def test_equal_folders_are_equal_archives(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "sub"
        folder.mkdir(parents=True)
        for file in ("y", "x")[:: 1 if name == "a" else -1]:
            (folder / file).write_text(file)
        (folder / "x").chmod(0o755)
    first, second = (archives.pack_folder(tmp_path / name) for name in ("a", "b"))
    assert first == second
    (tmp_path / "b" / "sub" / "x").chmod(0o644)
    assert archives.pack_folder(tmp_path / "b") != first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(entry.name, entry.mode, entry.mtime) for entry in archive] == [
            ("sub/x", 0o755, 0),
            ("sub/y", 0o644, 0),
        ]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What a node unpacks."""
    digest, archive = archives.agent()
    assert len(digest) == 16
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path


def test_it_is_in_the_language_of_the_oldest_python() -> None:
    for name, text in sources().items():
        ast.parse(text, name, feature_version=OLDEST)


def test_every_module_is_content_with_the_standard_library(programs: Path) -> None:
    """Imported by a Python that sees no installed package."""
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sources()
        if name != "__main__.py"
    ]
    program = f"import sys; sys.path.insert(0, {str(programs)!r})\n"
    program += "".join(f"import {module}\n" for module in sorted(modules))
    program += "assert not any('site-packages' in str(getattr(m, '__file__', ''))"
    program += " for m in sys.modules.values())"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "fairway_agent.ssh.supervise" in modules


def test_a_python_that_is_too_old_is_told_apart(tmp_path: Path) -> None:
    """The first file runs before anything of the bundle is imported."""
    entry = tmp_path / "__main__.py"
    entry.write_bytes(sources()["__main__.py"])
    program = "import runpy, sys; sys.version_info = (3, 9, 1, 'final', 0); "
    program += f"runpy.run_path({str(entry)!r}, run_name='__main__')"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 67
    assert "is too old" in run.stderr


def test_the_program_says_what_it_does_not_know(programs: Path) -> None:
    words = [sys.executable, "-S", "-E", str(programs / "fairway-node"), "dance"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "fairway-node: unknown command dance\n")


def test_the_shell_programs_are_sound(programs: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=str(sys.executable).rpartition("/")[0])
    assert shellcheck, "the development environment has shellcheck"
    files = [str(programs / name) for name in ("fairway-agent", "fairway-each-node")]
    done = subprocess.run([shellcheck, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
