"""The commands of `fairway-node`."""

from __future__ import annotations

import sys

from fairway_agent import proxy
from fairway_boot.files import Fault


def main() -> int:
    """Runs the command that the arguments name; returns the exit code."""
    proxy.use()
    name, *rest = sys.argv[1:]
    try:
        return _run(name, rest)
    except Fault as fault:
        print(f"fairway: {fault}", file=sys.stderr)  # noqa: T201
        return 74  # "I/O error" in sysexits.h


def _run(name: str, rest: list[str]) -> int:
    if name == "prepare":
        from fairway_agent.batch.preparation import prepare

        return prepare()
    if name == "release":
        from fairway_agent.batch.preparation import release

        return release()
    if name == "coordinate":
        from fairway_agent.batch.preparation import coordinate

        return coordinate()
    if name == "task":
        from fairway_agent.batch.attempt import run_task

        return run_task()
    if name == "tell":
        from fairway_agent.batch.notifications import send

        return send()
    if name == "serve":
        from fairway_agent.fanout.sshd_mesh import serve

        return serve(rest[0])
    if name == "watch":
        from fairway_agent.batch.attempt import watch_for_main

        return watch_for_main()
    print(f"fairway-node: unknown command {name}", file=sys.stderr)  # noqa: T201
    return 2
