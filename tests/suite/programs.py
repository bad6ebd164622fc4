"""Programs that tests run to their end, and that they put in place of others."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE


def executable(path: Path, text: str) -> Path:
    """Writes a program of the test's own, and the folder that it is in. Lines that do not say what
    runs them are of the shell; so a program of the product's is written as it is, without this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def finished(
    words: Sequence[str | Path], timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with what it printed; its exit code is looked at by who asks, or
    here with `check`."""
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)


def tool(name: str, how: str = "bin/setup dev") -> str:
    """The path of a program, this environment's own first; without it the test is skipped, which
    says how to get it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is missing: {how}")
    return found
