"""The proxy of the machine, for all that jobs start. Standard library only.

Machines of an environment with a proxy have it in a file: what starts jobs is no shell of a login,
and reads no profile. What the job or who submitted it has set already stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def past(hosts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of what is reached directly, with a task's own nodes too: by their names, which
    are in no range, and by their addresses, as urllib knows no ranges.

    >>> past(["nd-0"], {"no_proxy": "localhost,10.0.0.0/8"})
    {'no_proxy': 'localhost,10.0.0.0/8,nd-0'}
    """
    found = {}
    for name in ("no_proxy", "NO_PROXY"):
        direct = [each for each in environment.get(name, "").split(",") if each]
        if direct and "*" not in direct:
            found[name] = ",".join(dict.fromkeys([*direct, *hosts]))
    return found
