"""`fairway cancel`: end runs early."""

from __future__ import annotations

from fairway_cli.commands.arguments import RunsArgument


def command(runs: RunsArgument) -> None:
    """Cancel runs: signal their programs, and kill them after the grace period."""
    from fairway_runner.runs.store import RunStore

    store = RunStore.here()
    for run in [store.find(name) for name in runs]:
        run.cancel()
        print(f"{run.id} {run.state}", flush=True)
