"""Command lines of Batch, which has no shell unless one is named."""

from shlex import quote


def bash(script: str) -> str:
    """A script as a command line."""
    return f"/bin/bash -c {quote(script)}"
