"""A stand-in that lives on when the command that started it has returned."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_background(serve: Callable[[Callable[[], None]], int]) -> tuple[int, int]:
    """Runs `serve` in a process and a session of its own, which tells when it is ready; returns
    the process's id and 0 then, or how it ended before."""
    reader, writer = os.pipe()
    # What it starts keeps its standard error: nobody who reads ours would see the end of that.
    said = tempfile.TemporaryFile()  # noqa: SIM115 - it is the other process's too
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, stream in enumerate((nowhere, nowhere, said.fileno())):
            os.dup2(stream, number)
        code = serve(lambda: os.close(writer) if os.write(writer, b"ready") else None)
        raise SystemExit(code)
    os.close(writer)
    is_ready = os.read(reader, 5) == b"ready"
    sys.stderr.flush()
    said.seek(0)
    sys.stderr.buffer.write(said.read())
    if not is_ready:
        return child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return child, 0
