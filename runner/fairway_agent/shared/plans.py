"""What a run's files say is to be done, as this cluster has it. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent import record, run_files
from fairway_agent.allocators.hosts import queue_of

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.plan import RunPlan


def read(run: Path, *, retry: bool = False) -> RunPlan:
    """The plan of the run in a folder: its own copy of the code, whole paths, and the account
    that inputs are staged from."""
    plan = run_files.read_plan(run, retry=retry)
    target = record.read_json(run / "target.json")
    account = str((target.get("storage") or {}).get("account_url", "")).rstrip("/")
    return replace(
        plan,
        directory=str(run / "code"),
        after=tuple(str(run.parent / name) for name in plan.after),
        equal={str(run.parent / name): called for name, called in plan.equal.items()},
        staged=tuple(replace(entry, account=account) for entry in plan.staged),
    )


def cluster(run: Path) -> str:
    """The cluster's name, as its nodes know it."""
    return str(record.read_json(run / "target.json")["name"])


def queue(run: Path) -> Path:
    """The folder in which the run queues for nodes: that of all people, where there is one."""
    access = record.read_json(run / "target.json").get("ssh") or {}
    return queue_of(str(access.get("queue") or ""), run.parents[1], cluster(run))


def priority(run: Path) -> int:
    """Which of several waiting runs is first: −1000 to 1000, the highest."""
    found = record.read_json(run / "job.json").get("priority", "normal")
    return PRIORITIES[found] if isinstance(found, str) else int(found)


def priority_word(run: Path) -> str:
    """The word for it, or for the number that it is; "" where there is none."""
    number = priority(run)
    return next((word for word, known in PRIORITIES.items() if known == number), "")


PRIORITIES = {"low": -500, "normal": 0, "high": 500}
