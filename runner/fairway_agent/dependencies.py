"""Runs that a run depends on."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, state_files
from fairway_agent.spec import LAST, RunPlan
from fairway_agent.state_files import TaskState, exit_code_of
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence


def is_met(wanted: str | list[int], state: str, exit_code: int | None) -> bool:
    """Returns True if a run has ended as a downstream run requires."""
    if isinstance(wanted, list):
        return exit_code in wanted
    states = {"succeeded": ("succeeded",), "failed": ("failed", "lost")}
    return wanted == "ended" or state in states.get(wanted, ())


def watch(folders: Sequence[str], wakeup_writer: socket.socket) -> threading.Event:
    """Returns an event that is set when all these runs have ended; `wakeup_writer` is written to
    then."""
    ended = threading.Event()

    def wait() -> None:
        for folder in folders:
            try:
                with Path(folder, "lock").open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_SH)
            except OSError:
                continue  # removed, for example: `failed_dependencies` says so
        ended.set()
        wakeup_writer.send(b"!")

    threading.Thread(target=wait, daemon=True).start()
    return ended


def evaluate(folder: Path, plan: RunPlan, submission: int) -> list[str] | None:
    """Returns the reasons against starting the run of a folder, as `run-id failed`: an empty list
    if it may begin, or None while that depends on runs that are still active. The decision is made
    once for each submission: later changes of those runs have no effect."""
    with control.locked(folder):
        known = control.read(folder).of(submission).failed_dependencies
        if known is not None:
            return list(known)
        active = any(state_files.is_active(Path(each)) for each in plan.after)  # checked first
        found = failed_dependencies(plan.after, plan.conditions)
        if active and not found:
            return None
        control.change(folder, submission, failed_dependencies=tuple(found))
    return found


def failed_dependencies(
    folders: Sequence[str], conditions: Mapping[str, str | list[int]], *, active: str | None = None
) -> list[str]:
    """Returns the runs that did not end as `conditions` require, as `run-id failed`. Active runs do
    not count, unless `active` is set: then they count as lost, with that text."""
    found = []
    for folder in map(Path, folders):
        try:
            said = _failure(folder, conditions.get(folder.name, "succeeded"), active)
        except (OSError, AgentError):
            said = "cannot be read"
        if said:
            found.append(f"{folder.name} {said}")
    return found


def _failure(folder: Path, wanted: str | list[int], active: str | None) -> str:
    """Returns how a run ended if that is not as required; "" if it is, or the run is active."""
    known = state_files.read_run(folder)
    if known is None:
        return "was removed"
    said = known.state
    if known.is_active:
        if active is None:
            return ""
        known = control.lost_state(folder, known, active)
        said = active if known.state == "lost" else known.state
    code = None
    if isinstance(wanted, list) and (
        known.state != "cancelled" or any(each.attempts for each in _tasks(folder))  # it has begun
    ):
        setup = state_files.read_task(folder / "setup") or TaskState()
        code = exit_code_of(known, (setup.exit_code, *(each.exit_code for each in _tasks(folder))))
    if is_met(wanted, known.state, code):
        return ""
    return said if code is None else f"{said} with exit code {code}"


def _tasks(folder: Path) -> Iterator[TaskState]:
    """Yields the states of a run's tasks, in their order."""
    has_last = (folder / "finally.jsonl").exists()
    numbers = range(job_facts.read_plan(folder).tasks - has_last)
    for name in (*map(str, numbers), *[LAST] * has_last):
        if (known := state_files.read_task(folder / "tasks" / name)) is not None:
            yield known


def require(folders: Sequence[Path], conditions: Mapping[str, str | list[int]]) -> list[Path]:
    """Returns the runs that are active. Raises AgentError if one is gone, or did not end as
    required."""
    active = []
    for folder in folders:
        known = state_files.read_run(folder)
        if known is None or not known.is_active:
            said = failed_dependencies([str(folder)], conditions)
        elif control.read(folder).parts:
            active.append(folder)
            continue
        else:
            said = [f"{folder.name} {known.state}"]
        if said:
            hint = f"run it again first: fairway retry {folder.name}"
            hint = hint if folder.name not in conditions else ""
            raise AgentError("failed-predecessor", f"`after`: {said[0]}", hint, 2)
    return active
