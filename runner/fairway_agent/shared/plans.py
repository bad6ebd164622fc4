"""What a run's files say is to be done, as this cluster has it. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent import record
from fairway_agent.supervisor import read_plan

if TYPE_CHECKING:
    from pathlib import Path


def read(run: Path, *, retry: bool = False) -> dict[str, Any]:
    """The plan of the run in a folder: its own copy of the code, whole paths, and the account
    that inputs are staged from."""
    plan = read_plan(run, retry=retry)
    target = record.read_json(run / "target.json")
    account = str((target.get("storage") or {}).get("account_url", "")).rstrip("/")
    return {
        **plan,
        "directory": str(run / "code"),
        "after": [str(run.parent / name) for name in plan["after"]],
        "staged": [{**entry, "account": account} for entry in plan["staged"]],
    }


def cluster(run: Path) -> str:
    """The cluster's name, as its nodes know it."""
    return str(record.read_json(run / "target.json")["name"])


def priority(run: Path) -> int:
    """Which of several waiting runs is first: −1000 to 1000, the highest."""
    found = record.read_json(run / "job.json").get("priority", "normal")
    return _PRIORITIES[found] if isinstance(found, str) else int(found)


_PRIORITIES = {"low": -500, "normal": 0, "high": 500}
