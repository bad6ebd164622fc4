"""Commands beside a run that goes on: where its task is, and what is run there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.runs.folder import chosen_task
from fairway_runner.runs.store import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def enter(
    run: Run,
    command: Sequence[str],
    *,
    task: str | int | None = None,
    node: int | None = None,
    rank: int | None = None,
) -> int:
    """Runs the command in the environment, folder and container of a task that runs, as its
    user, on this terminal; returns its exit code.

    By default it is the first task that runs, and its main node; a rank says which node.
    UserError where no such task runs, or it has no such node or rank.
    """
    run.refresh()
    found = _running(run, task)
    if rank is not None and not 0 <= rank < found.world_size:
        message = f"{run.id} has no rank {rank}"
        raise UserError.of("unknown-rank", message, f"its ranks are 0 to {found.world_size - 1}")
    node_index = node if node is not None else (rank or 0) // found.processes_per_node
    if not 0 <= node_index < found.nodes:
        message = f"{run.id} has no node {node_index}"
        raise UserError.of("unknown-node", message, f"its nodes are 0 to {found.nodes - 1}")
    wanted = "-" if rank is None else str(rank)
    return run.engine.enter(run, found.index, node_index, [wanted, *command])


def _running(run: Run, task: str | int | None) -> TaskResult:
    if run.state in FINAL_STATES:
        hint = f"look at its files: fairway fetch {run.id}"
        raise UserError.of("ended-run", f"{run.id} has ended: {run.state}", hint)
    tasks = run.tasks
    for each in tasks if task is None else [tasks[chosen_task(run, task)]]:
        if each.state == "running":
            return each
    what = f"no task of {run.id}" if task is None else f"task {task} of {run.id}"
    raise UserError.of("not-running", f"{what} is running", f"see: fairway show {run.id}")
