"""Command lines of Batch, which uses a shell only if one is named."""

from shlex import quote


def bash(script: str) -> str:
    """Returns a command line that runs a script with bash."""
    return f"/bin/bash -c {quote(script)}"
