"""Ended runs once more: the tasks that did not succeed, in place."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.plan import Retry
from fairway_core.findings import UserError
from fairway_runner.runs import steps
from fairway_runner.runs.folder import running
from fairway_runner.runs.records import FINAL_STATES
from fairway_runner.runs.results import task_results
from fairway_runner.submit import recorded
from fairway_runner.submit.secret_values import secret_values
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def retry(run: Run, *, failed_only: bool = False) -> dict[int, int]:
    """Starts the tasks of an ended run again that did not succeed; returns by their numbers which
    attempt of each comes, from 1.

    With `failed_only` those that were cancelled or lost stay as they are. Each goes on from
    its checkpoints, its log is continued and its attempts count on; it has as many retries
    as before. A setup that succeeded is not repeated; `finally:` is. UserError where the run
    has not ended or has nothing to retry, or its target no longer runs such a job.
    """
    secrets = secret_values(recorded.facts(run, "job.json").get("secrets", {}), os.environ)
    run.refresh()
    lock = run.take_lock()
    try:
        state = run.state_at_end
        if state not in FINAL_STATES:
            raise running(run)
        tasks = task_results(run, state)
        due = [task for task in tasks if _is_due(task, failed_only=failed_only)]
        chosen = {task.index: task.attempts + 1 for task in due}
        if not chosen:
            raise _nothing(run, tasks)
        recorded.retarget(run)
        recorded.require(run)
        wanted = _wanted(run, state, tasks, [*chosen])
        record.write_json(run.folder / "retry.json", wanted.to_json())
    except BaseException:
        os.close(lock)
        raise
    snapshot = recorded.snapshot(run)
    run.engine.start(run, lock, snapshot, secrets, retry=True)
    return chosen


def targets_of(run: Run) -> list[Target]:
    """Where its tasks would run again."""
    if steps.has_steps(run.folder):
        return [find_target(each.target) for each in steps.read(run.folder)]
    return [run.engine.target]


def _is_due(task: TaskResult, *, failed_only: bool) -> bool:
    return task.state == "failed" if failed_only else task.state != "succeeded"


def _nothing(run: Run, tasks: Sequence[TaskResult]) -> UserError:
    if all(task.state == "succeeded" for task in tasks):
        hint = f"to run all of it again: fairway rerun {run.id}"
        return UserError.of("nothing-to-retry", f"every task of {run.id} succeeded", hint)
    hint = "leave out --failed for those that were cancelled or lost"
    return UserError.of("nothing-to-retry", f"no task of {run.id} failed", hint)


def _wanted(run: Run, state: str, tasks: Sequence[TaskResult], chosen: Sequence[int]) -> Retry:
    """What holds for this time, over the run's plan."""
    again = set(chosen)
    setup = run.setup_status(state)
    own = [task for task in tasks if not task.is_last]
    has_begun = any(task.attempts for task in tasks)
    return Retry(
        only=tuple(task.index for task in own if task.index in again),
        done=Counter(task.state for task in own if task.index not in again),
        is_set_up=setup is None or setup.state == "succeeded",
        after=() if has_begun else None,  # what it came after was there when it began
    )
