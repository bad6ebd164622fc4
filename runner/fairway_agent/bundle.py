"""Where the files of Fairway's own lie on this host. Standard library only."""

from __future__ import annotations

import sys
from pathlib import Path

import fairway_agent


def here() -> Path:
    """The bundle's folder, which Python can run."""
    return package().parent


def package() -> Path:
    """The folder of the package, with the programs that are no Python."""
    return Path(fairway_agent.__file__).parent


def program(module: str) -> list[str]:
    """The start of a command line that runs one of the bundle's modules, or of those that are
    installed where this is no bundle."""
    if not (here() / "__main__.py").exists():
        # -P: a json.py in the current folder is the job's, and not Python's own.
        return [sys.executable, "-P", "-m", module]
    return [sys.executable or "python3", "-s", str(here()), module]
