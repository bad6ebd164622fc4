"""Where the files of Fairway's own lie on this host. Standard library only."""

from __future__ import annotations

import sys
from pathlib import Path

import fairway_runner


def here() -> Path:
    """The bundle's folder, which Python can run."""
    return Path(fairway_runner.__file__).parent.parent


def program(module: str) -> list[str]:
    """The start of a command line that runs one of the bundle's modules."""
    return [sys.executable or "python3", "-s", str(here()), module]
