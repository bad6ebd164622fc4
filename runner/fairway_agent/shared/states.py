"""Where runs stand, as their folders say, and what their tasks have printed.

The request has for each run the tasks whose last state is known (`done`) and, where logs are
wanted, from which byte on for each task (`logs`). Standard library only.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from fairway_agent.record import FINAL_STATES
from fairway_agent.shared.pieces import MOST, piece_of

if TYPE_CHECKING:
    from pathlib import Path


def answer(
    shared: Path,
    request: dict[str, Any],
    payload: IO[bytes],  # noqa: ARG001
) -> dict[str, Any]:
    """`runs`: by id the run's `state`, that of its `setup`, and of its `tasks` that are not done;
    null for a run that has no folder. `logs` are pieces; `more` says that there are others."""
    budget = [MOST]
    return {
        "runs": {
            run: _look(shared / "runs" / run, asked, budget)
            for run, asked in request["runs"].items()
        }
    }


def _look(folder: Path, asked: dict[str, Any], budget: list[int]) -> dict[str, Any] | None:
    # The run's own state first: what is final there is final in all that is read after it.
    state = read(folder / "state.json")
    if state is None and not (folder / "plan.json").is_file():
        return None
    done = set(asked.get("done", ()))
    names = [name for name in _numbers(folder / "tasks") if name not in done]
    found: dict[str, Any] = {"state": state, "tasks": {}, "logs": {}, "more": False}
    asked_for: list[int | str] = ["setup", *names]
    for name in asked_for:
        status = task_state(folder, name)
        if status is not None:
            found["tasks"][str(name)] = status
    for name, offset in asked.get("logs", {}).items():
        if budget[0] <= 0:
            found["more"] = True
            break
        if piece := piece_of(_folder(folder, name) / "log.txt", offset, budget):
            found["logs"][name] = piece
            found["more"] = found["more"] or piece["more"]
    return found


def task_state(folder: Path, name: int | str) -> dict[str, Any] | None:
    """A task's state, with the size of its log where it has ended; None before it is known."""
    task = _folder(folder, name)
    status = read(task / "state.json")
    if status is not None and status["state"] in FINAL_STATES:
        log = task / "log.txt"
        status["log_size"] = log.stat().st_size if log.exists() else 0
    return status


def read(path: Path) -> dict[str, Any] | None:
    """A file of JSON; None where there is none."""
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value


def _folder(folder: Path, name: int | str) -> Path:
    return folder / "setup" if name == "setup" else folder / "tasks" / str(name)


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    except FileNotFoundError:
        return []
