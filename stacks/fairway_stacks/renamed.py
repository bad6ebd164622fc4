"""Earlier spellings of commands, which say the new one."""

from __future__ import annotations

import sys
from typing import NoReturn


def refuse(module: str, command: str) -> NoReturn:
    """Says what took the place of `python -m MODULE`, and ends with the code of a mistake."""
    sys.stderr.write(f"error: `python -m {module}` is `fairway {command}` now\n")
    sys.stderr.write(f"  type: fairway {command} --help\n")
    sys.exit(2)
