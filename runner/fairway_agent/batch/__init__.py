"""Programs that run on the nodes of a pool: standard library only, Python 3.10 and later.

`fairway-node` is started by the job's preparation task (`prepare`), by the coordination command of
a task on several nodes (`coordinate`), and as a task's own command (`task`).
"""

from __future__ import annotations

import sys
from importlib import import_module

from fairway_agent.main import use_proxy
from fairway_boot.files import AgentError

# Imported on demand, because a node runs many of these commands.
_COMMANDS = {
    "prepare": ("fairway_agent.batch.preparation", "prepare"),
    "release": ("fairway_agent.batch.preparation", "release"),
    "coordinate": ("fairway_agent.batch.preparation", "coordinate"),
    "task": ("fairway_agent.batch.attempt", "run_task"),
    "tell": ("fairway_agent.batch.notifications", "send"),
    "watch": ("fairway_agent.batch.nodes", "watch_for_main"),
    "serve": ("fairway_agent.fanout.sshd_mesh", "serve"),
}


def main() -> int:
    """Runs the command that the arguments name; returns the exit code."""
    use_proxy()
    name, *words = sys.argv[1:]
    if name not in _COMMANDS:
        print(f"fairway-node: unknown command {name}", file=sys.stderr)  # noqa: T201
        return 2
    module, function = _COMMANDS[name]
    try:
        code: int = getattr(import_module(module), function)(*words)
    except AgentError as fault:
        print(f"fairway: {fault.said}", file=sys.stderr)  # noqa: T201
        return 74  # EX_IOERR of sysexits.h
    return code
