"""Where the files of Fairway's own lie on this host. Standard library only."""

from __future__ import annotations

import sys
from pathlib import Path

import fairway_agent

WAITS = "fairway-waits"
"""In the command line of a program that waits for programs of its own: these get a task's signals
beside it, or by it."""


def here() -> Path:
    """The bundle's folder, which Python can run."""
    return package().parent


def package() -> Path:
    """The folder of the package, with the programs that are no Python."""
    return Path(fairway_agent.__file__).parent


def program(module: str, *, waits: bool = False) -> list[str]:
    """The start of a command line that runs one of the bundle's modules, or of those that are
    installed where this is no bundle. `waits` says of the program what WAITS says."""
    mark = ["-X", WAITS] if waits else []
    if not (here() / "__main__.py").exists():
        # A json.py in the current folder is the job's, and not Python's own. Where this is
        # installed Python knows that; on an older one only tests run it so.
        safe = ["-P"] if sys.version_info >= (3, 11) else []
        return [sys.executable, *mark, *safe, "-m", module]
    return [sys.executable or "python3", *mark, "-s", str(here()), module]
