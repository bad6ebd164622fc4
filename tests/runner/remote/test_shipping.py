"""What is sent to hosts: the same for the same files, and content with a bare Python."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

from fairway_runner.engines.remote import shipping
from fairway_runner.engines.remote.node.entry import OLDEST

if TYPE_CHECKING:
    from pathlib import Path


def sources() -> dict[str, bytes]:
    """The Python files of the bundle."""
    _, packed = shipping.bundle()
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        return {
            member.name: files.extractfile(member).read()  # type: ignore[union-attr]
            for member in files
            if member.name.endswith(".py")
        }


def test_the_name_is_that_of_the_content() -> None:
    name, packed = shipping.bundle()
    shipping.bundle.cache_clear()
    again, repacked = shipping.bundle()
    assert name == again
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as one,
        tarfile.open(fileobj=io.BytesIO(repacked)) as other,
    ):
        assert one.getnames() == other.getnames()


def test_it_is_in_the_language_of_the_oldest_python() -> None:
    for name, text in sources().items():
        ast.parse(text, name, feature_version=OLDEST)


def test_every_module_is_content_with_the_standard_library(tmp_path: Path) -> None:
    """Imported by a Python that sees no installed package."""
    _, packed = shipping.bundle()
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for member in files:
            content = files.extractfile(member)
            assert content is not None
            target = tmp_path / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sources()
        if name != "__main__.py"
    ]
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += "".join(f"import {module}\n" for module in sorted(modules))
    program += "assert not any('site-packages' in str(getattr(m, '__file__', ''))"
    program += " for m in sys.modules.values())"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "fairway_runner.engines.ssh.node.supervise" in modules


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
