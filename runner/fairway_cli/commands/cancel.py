"""`fairway cancel`: end runs early."""

from __future__ import annotations

import json

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunsArgument


def command(
    runs: RunsArgument, json_: JsonOption = False, _deadline: DeadlineOption = None
) -> None:
    """Cancel runs: signal their programs, and kill them after the grace period."""
    from fairway_runner.runs.store import RunStore

    store, facts = RunStore.here(), []
    for run in [store.find(name) for name in runs]:
        run.cancel()
        facts.append({"run_id": run.id, "state": run.state})
        if not json_:
            print(f"{run.id} {facts[-1]['state']}", flush=True)
    if json_:
        print(json.dumps(facts, indent=1))
