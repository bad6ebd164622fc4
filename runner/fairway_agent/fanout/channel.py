"""Protocol by which one host of a cluster runs a command on another: lines on its standard input.

The first line is JSON: the command's `argv`, `cwd` and `environment`. Then come `beat`, every few
seconds, and `signal NAME`; the end of the stream, or silence, ends the command. So nothing is left
running, whatever happens to the host that started it. None of this is in a command line, where
others could read it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

BEAT = 5.0  # seconds between two
SILENCE = 45.0  # seconds after which the other side is taken for dead

# OpenSSH's own exit code where a connection fails; a program's is told apart from it.
LOST = 255
NOT_LOST = 254


@dataclass(frozen=True)
class Command:
    """Command to run, with its folder and environment."""

    argv: list[str]
    cwd: str
    environment: dict[str, str]

    def line(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Command:
        """From what was sent."""
        return cls(**json.loads(line))
