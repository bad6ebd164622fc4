"""Inputs of a task that other runs have kept: where they are, and which is missing. Standard
library only."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.plan import RunPlan
    from fairway_agent.task_state import BestTasks


def best_tasks(run: Path, plan: RunPlan, *, decides: bool = False) -> BestTasks:
    """Which tasks of other runs are the best ones whose outputs are inputs of this run, as far as
    that is known, or is to be decided now."""
    if any(each.best for each in plan.chained):
        from fairway_agent import best  # few runs have such an input

        return best.decide(run, plan) if decides else best.read(run)
    return {}


def variables(run: Path, plan: RunPlan) -> dict[str, str]:
    """The variables of the inputs that another run has kept."""
    base, known = run.parents[1], best_tasks(run, plan, decides=True)
    return {
        f"FAIRWAY_INPUT_{each.name.upper()}": str(base / each.path_for(known))
        for each in plan.chained
    }


def missing_input(run: Path, plan: RunPlan) -> str:
    """Which input is not there that another run was to keep; "" where all are."""
    try:
        known = best_tasks(run, plan, decides=True)
    except (Fault, OSError) as error:
        return str(error)
    for each in plan.chained:
        path = each.path_for(known)
        folder = run.parents[1] / path
        for parent in (folder.parents[1], folder.parent):
            # A node that shares the folder believes for a while that what it did not find there
            # before is not there, until it lists it.
            with suppress(OSError):
                list(parent.iterdir())
        if not folder.is_dir():
            _, other, _, task, _, output = (*path.split("/"), *[""] * 5)[:6]
            if not output:
                return f"the input `{each.name}` no longer exists: {folder}"
            return f"task {task} of {other} has kept no file in `{output}`"
    return ""
