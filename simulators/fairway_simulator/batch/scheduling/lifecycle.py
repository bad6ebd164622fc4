"""Lifecycle of a task: when it starts, when it ends, and how its end affects other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent.execution import node_info
from fairway_simulator.batch.model.job import Outcome, ended, satisfies
from fairway_simulator.batch.wire.bodies import ServiceError, seconds

if TYPE_CHECKING:
    from fairway_simulator.batch.agent.execution import Execution
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.job import Attempt, Task
    from fairway_simulator.batch.model.pool import Node
    from fairway_simulator.batch.scheduling.jobs import JobEnds

_WEEK = 7 * 24 * 3600.0


class Lifecycle:
    """Changes of tasks. Methods that other threads call take the account's lock themselves."""

    def __init__(self, account: Account, jobs: JobEnds) -> None:
        self._account = account
        self._jobs = jobs

    def placed(self, execution: Execution, *, preparing: bool) -> None:
        """Records the nodes that the scheduler has chosen for a task."""
        task, now = execution.task, self._account.clock.now()
        task.execution = execution
        task.job.ready.pop(task.sequence, None)
        for node in execution.nodes:
            node.executions[execution] = task
            node.slots_used += task.slots
            if node.state == "idle":
                node.become("running", now)
        task.where = node_info(execution.task_folders[0])
        task.subtasks = [
            {"id": index, "nodeInfo": node_info(task_folder), "state": "preparing"}
            for index, task_folder in enumerate(execution.task_folders)
            if index
        ]
        if not preparing:
            self._begin(execution, now)
        task.job.become_task(task, "preparing" if preparing else "running", now)
        for index, node in enumerate(execution.nodes):
            node.remember(_recent(task, index))

    def running(self, execution: Execution) -> bool:
        """Records that the nodes are prepared. Returns False if the attempt no longer counts."""
        with self._account.changed:
            task, now = execution.task, self._account.clock.now()
            if task.execution is not execution:
                return False
            if task.state == "preparing":
                self._begin(execution, now)
                task.job.become_task(task, "running", now)
                for index, node in enumerate(execution.nodes):
                    node.remember(_recent(task, index))
            self._account.changed.notify_all()
            return True

    def _begin(self, execution: Execution, now: str) -> None:
        task = execution.task
        for name in ("endTime", "exitCode", "failureInfo", "result"):
            task.info.pop(name, None)
        task.info["startTime"] = now
        for subtask in task.subtasks:
            subtask |= {"state": "running", "startTime": now, "stateTransitionTime": now}
        span = (task.spec.get("constraints") or {}).get("maxWallClockTime")
        if span:
            execution.deadline = self._account.clock.time().timestamp() + seconds(span)

    def subtask(self, execution: Execution, index: int, outcome: Outcome) -> None:
        """Records the end of a subtask's coordination command."""
        with self._account.changed:
            if execution.task.execution is execution:
                info = execution.task.subtasks[index - 1]
                if outcome.exit_code is not None:
                    info["exitCode"] = outcome.exit_code
                if outcome.failure:
                    info["failureInfo"] = outcome.failure
                    self._end_subtask(info)

    def _end_subtask(self, info: dict[str, Any]) -> None:
        now = self._account.clock.now()
        info |= {
            "previousState": info["state"],
            "previousStateTransitionTime": info.get("stateTransitionTime", now),
            "state": "completed",
            "stateTransitionTime": now,
            "endTime": now,
            "result": "failure" if info.get("failureInfo") else "success",
        }

    def will_retry(self, task: Task, outcome: Outcome) -> bool:
        again = task.info["retryCount"] < task.retry_limit()
        fit = task.job.state in {"active", "disabling", "disabled"}
        return fit and again and outcome.kind == "exit" and outcome.failure is not None

    def ended(self, execution: Execution, outcome: Outcome | None) -> None:
        """Records the end of an attempt, of which nothing runs any more. Without an outcome the
        attempt does not count, because its nodes were lost or unfit."""
        with self._account.changed:
            task = execution.task
            if task.execution is execution:
                task.execution = None
                if outcome is None:
                    _wait_again(task, self._account.clock.now())
                elif self.will_retry(task, outcome):
                    now = self._account.clock.now()
                    task.info["retryCount"] += 1
                    task.info["lastRetryTime"] = now
                    task.job.become_task(task, "active", now)
                    task.job.ready[task.sequence] = task
                else:
                    self._complete(task, outcome)
            self._release(execution, outcome)
            self._account.changed.notify_all()

    def _release(self, execution: Execution, outcome: Outcome | None) -> None:
        task, now = execution.task, self._account.clock.now()
        for index, node in enumerate(execution.nodes):
            node.executions.pop(execution, None)
            node.slots_used -= task.slots
            if node.state == "running" and not node.executions:
                node.become("idle" if node.schedulable else "offline", now)
            node.total_run += 1
            node.total_succeeded += bool(outcome and outcome.failure is None)
            node.remember(_recent(task, index))

    def _complete(self, task: Task, outcome: Outcome) -> None:
        now = self._account.clock.now()
        task.info["endTime"] = now
        task.info["result"] = "failure" if outcome.failure else "success"
        if outcome.exit_code is not None:
            task.info["exitCode"] = outcome.exit_code
        if outcome.failure:
            task.info["failureInfo"] = outcome.failure
        for info in task.subtasks:
            if info["state"] != "completed":
                self._end_subtask(info)
        task.job.ready.pop(task.sequence, None)
        # The result is set before the state, as the new state's counts depend on it.
        task.job.become_task(task, "completed", now)
        span = (task.spec.get("constraints") or {}).get("retentionTime")
        keep = seconds(span) if span else _WEEK
        task.files_until = self._account.clock.time().timestamp() + keep
        job = task.job
        if satisfies(task.spec.get("exitConditions") or {}, outcome):
            job.satisfy(task)
        manager = job.spec.get("jobManagerTask") or {}
        is_manager = task.id == manager.get("id")
        if is_manager and manager.get("killJobOnCompletion", True) and job.state == "active":
            self._jobs.terminate(job, "JMComplete")
        self._jobs.check_complete(job)

    def terminate(self, task: Task, message: str) -> Attempt | None:
        """Ends a task. Returns the attempt that is being ended, or None if none was running."""
        if task.state == "completed":
            raise ServiceError(409, "TaskCompleted")
        if task.execution:
            task.execution.end(ended(message))
            return task.execution
        self._complete(task, ended(message))
        return None


def requeue(node: Node, now: str, *, asked: bool) -> None:
    """Requeues the tasks of a node that is lost or, with `asked`, restarted on request."""
    for execution, task in dict(node.executions).items():
        if task.execution is execution:
            _requeue(task, now, asked=asked)


def _recent(task: Task, index: int) -> dict[str, Any]:
    """Returns a node's record of a recent task and its current state."""
    info = {
        "taskUrl": task.url,
        "jobId": task.job.id,
        "taskId": task.id,
        "taskState": task.state,
        "executionInfo": dict(task.info),
    }
    return {**info, "subtaskId": index} if task.is_multi_instance else info


def _requeue(task: Task, now: str, *, asked: bool) -> None:
    """Abandons a task's attempt and makes the task start again, on any node.

    `requeueCount` counts only what was `asked` for, a reboot for example: see the description of
    BatchTaskExecutionInfo.requeue_count in azure-batch.
    """
    execution, task.execution = task.execution, None
    if execution:
        execution.abandon()
    if asked:
        task.info["requeueCount"] += 1
        task.info["lastRequeueTime"] = now
    task.info.pop("startTime", None)
    _wait_again(task, now)


def _wait_again(task: Task, now: str) -> None:
    """Returns a task to the queue, without nodes."""
    task.where, task.subtasks = {}, []
    task.job.become_task(task, "active", now)
    task.job.ready[task.sequence] = task
