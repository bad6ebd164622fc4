"""`fairway wait`: until runs have ended."""

from __future__ import annotations

import json

import typer

from fairway_cli.commands.arguments import JsonOption, RunsArgument


def command(runs: RunsArgument, json_: JsonOption = False) -> None:
    """Wait until runs have ended, print their states, and exit with the first failing code."""
    from fairway_runner.runs.store import RunStore

    store, code, facts = RunStore.here(), 0, []
    for run in [store.find(name) for name in runs]:
        try:
            run.wait()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        code = code or run.exit_code
        facts.append({"run_id": run.id, "state": run.state, "exit_code": run.exit_code})
        if not json_:
            print(f"{run.id} {run.state}", flush=True)
    if json_:
        print(json.dumps(facts, indent=1))
    raise typer.Exit(code)
