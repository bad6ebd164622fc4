"""`fairway list`: the runs of this folder."""

from __future__ import annotations

import json

from fairway_runner.commands.arguments import JsonOption


def command(json_: JsonOption = False) -> None:
    """List the runs submitted from this folder, the newest last."""
    from fairway_runner.runs import RunStore
    from fairway_runner.ui.facts import run_facts

    runs = [run_facts(run) for run in RunStore.here().all()]
    if json_:
        print(json.dumps(runs, indent=1))
    elif not runs:
        print("no runs yet; start one with: fairway submit JOB")
    else:
        from fairway_runner.ui.tables import print_runs

        print_runs(runs)
