"""Where runs stand, as their folders say, and what their tasks have printed.

The request has for each run, under `runs`, a `reports.Asked`. Standard library only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.fields import Damaged
from fairway_agent.shared.pieces import MOST, piece_of
from fairway_agent.shared.reports import Asked, RunReport
from fairway_agent.task_spec import LAST

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.task_state import TaskState


def answer(
    shared: Path,
    request: dict[str, Any],
    payload: IO[bytes],  # noqa: ARG001
) -> dict[str, Any]:
    """`runs`: by id what is told of the run, null for one that has no folder."""
    return told(reports(shared, request))


def reports(shared: Path, request: dict[str, Any]) -> dict[str, RunReport | None]:
    """What is told of each run that the request asks about."""
    budget = [MOST]
    return {
        run: _look(shared / "runs" / run, Asked.from_json(asked), budget)
        for run, asked in request["runs"].items()
    }


def told(found: dict[str, RunReport | None]) -> dict[str, Any]:
    """The reports as they are sent."""
    return {"runs": {run: report and report.to_json() for run, report in found.items()}}


def _look(folder: Path, asked: Asked, budget: list[int]) -> RunReport | None:
    try:
        return _report(folder, asked, budget)
    except Damaged as fault:
        return RunReport(damaged=str(fault))


def _report(folder: Path, asked: Asked, budget: list[int]) -> RunReport | None:
    # The run's own state first: what is final there is final in all that is read after it.
    state = state_files.read_run(folder)
    if state is None and not (folder / "plan.json").is_file():
        return None
    done = set(asked.done)
    names = [name for name in ("setup", *_names(folder / "tasks")) if name not in done]
    found = {name: _task(_folder(folder, name)) for name in names}
    tasks = {name: status for name, status in found.items() if status is not None}
    logs, more = {}, False
    for name, offset in asked.logs.items():
        if budget[0] <= 0:
            more = True
            break
        if piece := piece_of(_folder(folder, name) / "log.txt", offset, budget):
            logs[name] = piece
            more = more or piece.more
    return RunReport(state, tasks, logs, more)


def _task(folder: Path) -> TaskState | None:
    """A task's state, with the size of its log where it has ended; None before it is known."""
    status = state_files.read_task(folder)
    if status is None or not status.is_final:
        return status
    log = folder / "log.txt"
    return replace(status, log_size=log.stat().st_size if log.exists() else 0)


def _folder(folder: Path, name: str) -> Path:
    return folder / "setup" if name == "setup" else folder / "tasks" / name


def _names(folder: Path) -> list[str]:
    """The tasks that have a folder: by their numbers, and then the last."""
    try:
        found = [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return []
    return [*sorted(filter(str.isdecimal, found), key=int), *(n for n in found if n == LAST)]
