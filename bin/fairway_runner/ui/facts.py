"""What is said of a run, as plain data: the same for `--json` and for tables."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_runner.runs import Run


def run_facts(run: Run) -> dict[str, Any]:
    """One run: ids, state, counts of its tasks by state, times in ISO 8601, seconds."""
    record, status = run.record, run.status
    return {
        "run_id": run.id,
        "name": record.name,
        "target": record.target,
        "state": status["state"],
        "tasks": record.tasks,
        "created": _iso(record.created),
        "started": _iso(status.get("started")),
        "ended": _iso(status.get("ended")),
        "seconds": _seconds(status),
    }


def task_facts(run: Run) -> list[dict[str, Any]]:
    """Every task of the run: its state, exit code, times and where its log is."""
    lost = run.state == "lost"
    facts = []
    for index in range(run.record.tasks):
        status = run.task_status(index, lost=lost)
        facts.append(
            {
                "task": index,
                "state": status["state"],
                "exit_code": status.get("exit_code"),
                "started": _iso(status.get("started")),
                "ended": _iso(status.get("ended")),
                "seconds": _seconds(status),
                "log": str(run.log(index)),
            }
        )
    return facts


def _iso(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _seconds(status: dict[str, Any]) -> float | None:
    started, ended = status.get("started"), status.get("ended")
    if started is None or (ended is None and status["state"] != "running"):
        return None
    return round(float(ended or time.time()) - float(started), 3)
