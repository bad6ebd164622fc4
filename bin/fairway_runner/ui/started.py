"""What is said of a run that has just been started, or that was watched to its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fairway_runner.ui.facts import run_facts

if TYPE_CHECKING:
    from fairway_runner.run_records import RunRecord
    from fairway_runner.run_store import Run

_IN_JSON = ("run_id", "target", "tasks", "state")


def print_prepared(record: RunRecord, *, json_: bool = False) -> None:
    """What a submission would start."""
    if json_:
        print(json.dumps({"target": record.target, "tasks": record.tasks, "dry_run": True}))
        return
    tasks = "1 task" if record.tasks == 1 else f"{record.tasks:,} tasks"
    print(f"{record.name} is right: it would start {tasks} on {record.target}")


def print_started(run: Run, *, json_: bool = False, quiet: bool = False) -> None:
    """The run's id and how to go on; `quiet` is the id alone."""
    facts = run_facts(run)
    if json_:
        print(json.dumps({name: facts[name] for name in _IN_JSON}))
    elif quiet:
        print(run.id)
    else:
        print(f"{run.id} runs on {facts['target']}")
        print(f"  follow it:  fairway logs {run.id} -f")
        print(f"  end it:     fairway cancel {run.id}")


def print_ended(run: Run, *, json_: bool = False) -> None:
    """How a run that was watched has ended."""
    facts = run_facts(run)
    if json_:
        more = {"exit_code": run.exit_code, "reason": facts["reason"]}
        print(json.dumps({**{name: facts[name] for name in _IN_JSON}, **more}))
        return
    from fairway_runner.ui.tables import duration

    spent = f" after {duration(facts['seconds'])}" if facts["seconds"] else ""
    why = f" ({facts['reason']})" if facts["reason"] else ""
    print(f"{run.id} {facts['state']}{spent}{why}; its files are in {run.folder}")
