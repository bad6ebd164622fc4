"""Makes a run's folder ready for a scheduler. Standard library only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairway_agent import predecessors, run_files, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.run_state import RunState
from fairway_agent.setup import has_failed
from fairway_agent.shared import plans, submissions
from fairway_agent.shared.receive import copy_code
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.plan import RunPlan


def prepare(
    shared: Path, folder: Path, number: int, code: str, *, alone: bool = False
) -> list[Part]:
    """Makes the run's folder ready for the submission of that number, with the snapshot `code`; its
    parts. Tasks of one part have the same shape; with `alone` each task of several nodes is a part
    of its own."""
    if not (folder / "code").is_dir():
        copy_code(shared, code, folder)
    plan = plans.read(folder, retry=number > 0)
    of_tasks = submissions.write_index(folder)
    wanted = plan.retry.only if plan.retry else range(len(of_tasks))
    shapes: dict[tuple[object, ...], list[int]] = {}
    for index in wanted:
        shape = of_tasks[index]
        key = (shape, index if alone and shape[0] > 1 else -1)
        shapes.setdefault(key, []).append(index)
    parts = []
    for position, indices in enumerate(shapes.values()):
        nodes, width, gpus, cores = of_tasks[indices[0]]
        part = Part("tasks", position, Numbers(indices), nodes, width, gpus=gpus, cores=cores)
        parts.append(part)
    if (folder / "finally.jsonl").exists():
        _, _, gpus, cores = submissions.shape_of(run_files.read_spec(folder / "finally.jsonl"))
        last = Part("finally", len(parts), Numbers([len(of_tasks)]), 1, 1, gpus=gpus, cores=cores)
        parts.append(last)
    _queue(folder, parts, plan, number)
    return parts


def require_predecessors(
    folders: Sequence[Path], conditions: Mapping[str, str | list[int]]
) -> list[Path]:
    """Of the runs that one comes after, those that go on; Fault where one has ended otherwise than
    `conditions` say, or is there no more."""
    going = []
    for folder in folders:
        found = state_files.read_run(folder)
        is_going = found is not None and found.goes_on
        if is_going and submissions.read(folder) is not None:
            going.append(folder)
            continue
        unmet = predecessors.unmet([str(folder)], conditions)
        if is_going and found is not None:
            unmet = [f"{folder.name} {found.state}"]
        if unmet:
            hint = f"run it again first: fairway retry {folder.name}"
            hint = hint if folder.name not in conditions else ""
            raise Fault("failed-predecessor", f"`after`: {unmet[0]}", hint, 2)
    return going


def write_secret(path: Path, text: str) -> None:
    """Writes a file that nobody else may read."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _queue(folder: Path, parts: list[Part], plan: RunPlan, number: int) -> None:
    """Says of the run, and of tasks that run again, that they are to come."""
    if number:
        for part in parts:
            for index in part.indices:
                task = part.task_folder(folder, index)
                if status := state_files.read_task(task):
                    state_files.write(task, status.again)
        if has_failed(folder):
            (folder / "setup" / "state.json").unlink()
    counts = {state: count for state, count in plan.done.items() if count}
    counts["queued"] = sum(len(part.indices) for part in parts)
    state_files.write(folder, RunState(tasks=counts, submission=number))
