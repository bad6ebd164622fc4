"""The commands of `fairway-node`."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command that the arguments name; returns the exit code."""
    name, *rest = sys.argv[1:]
    if name == "prepare":
        from fairway_runner.engines.batch.node.preparation import prepare

        return prepare()
    if name == "coordinate":
        from fairway_runner.engines.batch.node.coordination import coordinate

        return coordinate()
    if name == "task":
        from fairway_runner.engines.batch.node.attempt import run_task

        return run_task()
    if name == "each-node":
        from fairway_runner.engines.batch.node.each_node import each_node

        return each_node(rest)
    if name == "serve":
        from fairway_runner.engines.batch.node.serving import serve

        return serve(rest[0])
    if name == "watch":
        from fairway_runner.engines.batch.node.notices import watch_for_main

        return watch_for_main()
    print(f"fairway-node: unknown command {name}", file=sys.stderr)  # noqa: T201
    return 2
