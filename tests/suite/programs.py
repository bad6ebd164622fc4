"""Programs that tests run to their end, and fake programs."""

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
    """Writes a fake program and its folder. Text without a `#!` line is for the shell; so a program
    of the product is written without this function, as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def finished(
    words: Sequence[str | Path], timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and captures its output. The caller looks at the exit code, or
    passes `check`."""
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)


def tool(name: str, how: str = "bin/setup dev") -> str:
    """Returns the path of a program, preferably that of this environment. If it is missing, skips
    the test with a hint on how to install it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is missing: {how}")
    return found
