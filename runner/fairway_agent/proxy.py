"""The proxy of the machine, for all that jobs start. Standard library only.

Machines of an environment with a proxy have it in a file: what starts jobs is no shell of a login,
and reads no profile. What the job or who submitted it has set already stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FILE = Path("/etc/fairway/proxy")

_LINE = re.compile(r"((?:https?|no)_proxy|(?:HTTPS?|NO)_PROXY)=(\S+)")


def use() -> None:
    """Sets the variables of the file, where there is one, that are not set yet."""
    try:
        text = FILE.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    for line in text.splitlines():
        if found := _LINE.fullmatch(line):
            os.environ.setdefault(found[1], found[2])
