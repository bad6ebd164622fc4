"""What a run's files say is to be done, as this cluster has it. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent import job_facts, run_files
from fairway_agent.allocators.hosts import queue_of

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.plan import RunPlan


def read(run: Path, *, retry: bool = False) -> RunPlan:
    """The plan of the run in a folder: its own copy of the code, whole paths, and the account
    that inputs are staged from."""
    plan = run_files.read_plan(run, retry=retry)
    account = job_facts.of_target(run).account_url
    return replace(
        plan,
        directory=str(run / "code"),
        after=tuple(str(run.parent / name) for name in plan.after),
        staged=tuple(replace(entry, account=account) for entry in plan.staged),
    )


def queue(run: Path) -> Path:
    """The folder in which the run queues for nodes: that of all people, where there is one."""
    target = job_facts.of_target(run)
    return queue_of(target.queue, run.parents[1], target.name)
