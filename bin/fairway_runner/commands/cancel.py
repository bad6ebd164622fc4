"""`fairway cancel`: end a run early."""

from __future__ import annotations

from fairway_runner.commands.arguments import RunArgument


def command(run: RunArgument) -> None:
    """End a run early: its programs get SIGTERM, and SIGKILL ten seconds later."""
    from fairway_runner.engines.local import engine
    from fairway_runner.runs import RunStore

    found = RunStore.here().find(run)
    engine.cancel(found)
    print(f"{found.id} {found.state}")
