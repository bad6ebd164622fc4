"""The command line that runs a command beside a task, on the node where the task is."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import fairway_agent

if TYPE_CHECKING:
    from collections.abc import Sequence


def words(run: str, task: str, command: Sequence[str], python: str = "python3") -> list[str]:
    """What the node runs; `command` begins with the rank, see `fairway_agent.inside`."""
    # -I: neither the shell's folder nor its variables change what is imported.
    return [python, "-I", "-c", _source(), run, task, *command]


@cache
def _source() -> str:
    return Path(fairway_agent.__file__).with_name("inside.py").read_text(encoding="utf-8")
