"""Assignment of tasks to nodes, and deadlines: a thread that wakes at every change."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.execution import Execution, timed_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.job import Job, Task
    from fairway_simulator.batch.model.pool import Node, Pool
    from fairway_simulator.batch.scheduling.jobs import JobEnds
    from fairway_simulator.batch.scheduling.lifecycle import Lifecycle

# Longest time between two checks of deadlines, in seconds.
_LOOK = 0.25
# Seconds between two searches for expired files.
_CLEAN = 5.0


class Scheduler:
    def __init__(
        self,
        account: Account,
        agent: NodeAgent,
        lifecycle: Lifecycle,
        jobs: JobEnds,
        run_schedules: Callable[[], None],
    ) -> None:
        self._account = account
        self._agent = agent
        self._lifecycle = lifecycle
        self._jobs = jobs
        self._run_schedules = run_schedules
        self._stopping = False
        self._cleaned = 0.0
        self._thread = threading.Thread(target=self._loop, name="batch-scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._account.changed:
            self._stopping = True
            self._account.changed.notify_all()
        self._thread.join()

    def _loop(self) -> None:
        with self._account.changed:
            while not self._stopping:
                self._see_to_due()
                self._run_schedules()
                for pool in self._account.pools.values():
                    self._fill(pool)
                self._account.changed.wait(_LOOK)

    def _see_to_due(self) -> None:
        now = self._account.clock.time().timestamp()
        for pool in self._account.pools.values():
            for node in pool.nodes.values():
                for execution in node.executions:
                    if execution.deadline is not None and execution.deadline <= now:
                        execution.deadline = None
                        execution.end(timed_out())
        clean = now - self._cleaned > _CLEAN
        for job in list(self._account.jobs.values()):
            self._jobs.settle(job)
            if clean:
                self._clean(job, now)
        if clean:
            self._cleaned = now

    def _clean(self, job: Job, now: float) -> None:
        for task in job.tasks.values():
            if task.files_until is not None and task.files_until <= now and not task.files_gone:
                task.files_gone = True
                pool = self._account.pools.get(job.pool_id.lower())
                for node in pool.nodes.values() if pool else ():
                    folder = node.folder / job.folder / task.id
                    shutil.rmtree(folder, ignore_errors=True)

    def _fill(self, pool: Pool) -> None:
        free = [node for node in pool.nodes.values() if node.free_slots() > 0]
        if not free or pool.state != "active":
            return
        jobs = [
            job
            for job in self._account.jobs.values()
            if job.ready and job.state == "active" and job.pool_id.lower() == pool.key
        ]
        for job in sorted(jobs, key=lambda job: (-job.priority, job.sequence)):
            for task in list(job.ready.values()):
                free = [node for node in free if node.free_slots() > 0]
                if not free:
                    return
                limit = int(job.spec["maxParallelTasks"])
                if 0 <= limit <= job.running:
                    break
                if not self._place(task, pool, free) and self._reserves(task, pool):
                    return

    def _place(self, task: Task, pool: Pool, free: list[Node]) -> bool:
        """Starts a task if enough nodes are free.

        A task that needs more slots than a node has waits forever, and nothing refuses it: see
        learn.microsoft.com/azure/batch/batch-parallel-node-tasks.
        """
        if task.is_multi_instance and not pool.talks:
            return False
        key = task.job.key
        fit = [n for n in free if n.free_slots() >= task.slots and key not in n.unfit_for]
        if len(fit) < task.instances:
            return False
        # Tasks spread: the emptiest nodes come first, in the order of their addresses.
        fit.sort(key=lambda node: node.slots_used)
        chosen = fit[: task.instances]
        preparing = bool(task.job.spec.get("jobPreparationTask")) and not all(
            (known := task.job.prepared.get(node.id))
            and known.generation == node.generation
            and known.done.is_set()
            for node in chosen
        )
        execution = Execution(task, chosen, self._agent, self._lifecycle)
        self._lifecycle.placed(execution, preparing=preparing)
        execution.start()
        return True

    @staticmethod
    def _reserves(task: Task, pool: Pool) -> bool:
        """Returns True if free nodes are kept for a task that needs several at once."""
        if not pool.talks or task.instances == 1:
            return False
        usable = [
            n for n in pool.nodes.values() if n.state in {"idle", "running"} and n.schedulable
        ]
        return len(usable) >= task.instances
