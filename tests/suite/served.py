"""`fairway serve` as a process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAM = (sys.executable, "-m", "fairway_cli.entry")


@contextmanager
def serve(
    project: Path,
    *options: str,
    program: Sequence[str] = PROGRAM,
    env: Mapping[str, str] | None = None,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process and its first line, printed when it is ready. Kills it at the end."""
    process = subprocess.Popen(
        [*program, "serve", *options],
        cwd=project,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
