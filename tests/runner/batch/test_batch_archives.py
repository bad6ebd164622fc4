"""Archives: the same bytes for the same files, and programs that run on a bare node."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from fairway_runner.engines.batch import archives, keys, names

if TYPE_CHECKING:
    from pathlib import Path


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
    digest, archive = archives.node_programs()
    assert len(digest) == 16
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path


def test_the_programs_need_nothing_but_the_standard_library(programs: Path) -> None:
    modules = [
        path.relative_to(programs).with_suffix("").as_posix().replace("/", ".")
        for path in programs.rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert len(modules) > 10
    text = "".join(f"import {module}\n" for module in modules)
    # -S: without any installed package; -E: without this test's own search path.
    words = [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, '.')\n{text}"]
    done = subprocess.run(words, cwd=programs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


def test_each_run_has_a_key_of_its_own() -> None:
    (first, public), (second, _) = keys.new_key("a"), keys.new_key("a")
    assert first != second
    assert first.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    assert public.startswith("ssh-ed25519 ")


@pytest.mark.parametrize("run", ["a", "digits-abcdef", "a" * 63])
def test_ids_of_jobs_fit_and_differ(run: str) -> None:
    ids = {names.job_id(run, generation) for generation in range(12)}
    assert len(ids) == 12
    assert all(len(each) <= 64 for each in ids)
    assert names.job_id("a" * 62 + "b", 1) != names.job_id("a" * 62 + "c", 1)
