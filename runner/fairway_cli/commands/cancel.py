"""`fairway cancel`: end runs early."""

from __future__ import annotations

from fairway_cli.commands.arguments import RunsArgument


def command(runs: RunsArgument) -> None:
    """End runs early: their programs are told to, and killed when their grace is over."""
    from fairway_runner.runs.store import RunStore

    store = RunStore.here()
    for run in [store.find(name) for name in runs]:
        run.cancel()
        print(f"{run.id} {run.state}", flush=True)
