"""`fairway show`: one run and its tasks."""

from __future__ import annotations

import json

from fairway_runner.commands.arguments import JsonOption, RunArgument


def command(run: RunArgument, json_: JsonOption = False) -> None:
    """Show a run: where it stands, its tasks, where its files are."""
    from fairway_runner.runs import RunStore
    from fairway_runner.ui.facts import run_facts, task_facts

    found = RunStore.here().find(run)
    facts, tasks = run_facts(found), task_facts(found)
    if json_:
        print(json.dumps({**facts, "folder": str(found.folder), "task_list": tasks}, indent=1))
        return
    from fairway_runner.ui.tables import duration, print_tasks

    print(f"{found.id}  {facts['state']}  on {facts['target']}  {duration(facts['seconds'])}")
    print(f"job     {found.record.job_file}")
    print(f"folder  {found.folder}\n")
    print_tasks(tasks)
