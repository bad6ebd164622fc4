"""Tasks that wait again: after a lost node, for a smaller pool, or with a disabled job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway_simulator.batch.model.job import Task


def requeue(task: Task, now: str, *, asked: bool = True) -> None:
    """A task's node was lost or is wanted otherwise: it starts again, elsewhere.

    `requeueCount` is of what somebody `asked` for, a smaller pool or a disabled job, and of
    nothing else: see the description of BatchTaskExecutionInfo.requeue_count in azure-batch.
    """
    execution, task.execution = task.execution, None
    if execution:
        execution.abandon()
    if asked:
        task.info["requeueCount"] += 1
        task.info["lastRequeueTime"] = now
    task.info.pop("startTime", None)
    wait_again(task, now)


def wait_again(task: Task, now: str) -> None:
    """A task may start, on no node yet."""
    task.where, task.subtasks = {}, []
    task.job.become_task(task, "active", now)
    task.job.ready[task.sequence] = task
