"""Runs the tasks of one run to their end, detached from the terminal that started it.

Started by the engine as `python -m fairway_agent.supervisor FOLDER LOCK STARTED [retry]`: the run's
folder, a descriptor that holds the run's lock, and one on which to report that the run is under
way; `retry` says that some of its tasks run again, as `retry.json` has it. Standard input has the
tasks' secrets, as JSON. This process holds the lock as long as it lives; a run that is not finished
and whose lock is free has lost its supervisor. SIGUSR1 cancels the run. SIGTERM says that the
machine stops: the tasks get the signal to save what they have, and the run is lost, to be retried.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import control, dependencies, job_facts, processes, state_files
from fairway_agent.machine import Allocator, Machine
from fairway_agent.quick import dataclass
from fairway_agent.resources import NeverFits
from fairway_agent.sampler import Sampling, sampler
from fairway_agent.state_files import CANCELLATION, MACHINE, TIMED_OUT, RunState, TaskState
from fairway_agent.task.attempts import Attempts, Patience, missing_input
from fairway_agent.task.task import MACHINE_STOPPED, Nodes, Task
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fairway_agent.spec import RunPlan

_ROOM_WAIT = 3600.0  # seconds after the last task for a full disk to have room again
_GUARD_GRACE = 5.0  # seconds for the tasks of a killed supervisor


@dataclass
class Supervisor:
    """Starts tasks in their order, as many at a time as its allocator and the plan allow, and
    records the outcome of each. It watches those `running`; those `waiting` have their turn next.

    `stage` is the one whose tasks run. `blocked` says that the next task waits for what others use,
    and `notified` is the process that reports that. `patience` knows why a task cannot start just
    now. `limit` names the run's own limit that it has exceeded, and `limit_due` when it will exceed
    one, on the monotonic clock. `spent` counts the node-seconds of attempts that have ended.
    `cancelled` has the names of tasks that the user has cancelled one by one. `ending` is why all
    are to end: the user cancels the run, or its machine stops.
    """

    folder: Path
    plan: RunPlan
    guard: processes.Guard
    wakeup: socket.socket
    wakeup_writer: socket.socket
    allocator: Allocator = field(default_factory=Machine)
    nodes: Nodes = field(default_factory=Nodes)
    running: list[Attempts] = field(default_factory=list)
    waiting: deque[Attempts] = field(default_factory=deque)
    counts: Counter[str] = field(default_factory=Counter)
    stage: str = ""
    started: float | None = None
    ending: str = ""
    cancelled: set[str] = field(default_factory=set)
    limit: str | None = None
    limit_due: float | None = None
    spent: float = 0.0
    setup_failed: bool = False
    reason: str | None = None
    blocked: bool = False
    awaited: list[str] = field(default_factory=list)
    patience: Patience = field(default_factory=Patience)
    notified: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    recorded: RunState = field(default_factory=RunState)
    states: state_files.States = field(default_factory=state_files.States)

    def run(self, ready: int) -> None:
        """Runs everything to its end; returns once the run's final state is written. Raises
        AgentError, with nothing started, if a file of the run is damaged."""
        self._begin(ready)
        broken = False
        try:
            self._await_predecessors()
            if not self.ending and not self.reason:
                self.started = None if self._may_wait() else time.time()
                if not self.plan.is_set_up and not self.allocator.lends_nodes:
                    self._stage("setup")
            if not self.ending and not self.reason:
                # If nodes are allocated, the tasks sample their own.
                self.sampling = Sampling(
                    None if self.allocator.lends_nodes else self.plan.sample_every,
                    lambda seconds: sampler(self.folder, seconds, os.getpid()),
                    os.environ,
                    self.plan.secrets,
                )
                self._stage("tasks")
                self._stage("finally")
                self.sampling.end()
        except AgentError as fault:  # a file of the run is damaged: end everything
            self.reason, broken = fault.said, True
            for task in self._running_tasks():
                processes.end_all(task.sessions)
                task.record(replace(task.status("cancelled"), ended=time.time()))
            self.counts["cancelled"] += self.counts.pop("running", 0)
            self.sampling.end()
        self.counts[self._left] += self.counts.pop("queued", 0)
        if self.ending == MACHINE:
            self.reason = self.reason or MACHINE_STOPPED
        self._record("failed" if broken else self._outcome())
        self._notify(self.recorded)
        self.states.await_room(self.wakeup, _ROOM_WAIT)

    def _notify(self, state: RunState) -> int | None:
        """Starts the program that reports a state, if anybody wants it; returns its process id."""
        if self.plan.notify is None:
            return None
        from fairway_agent.notify import notify  # most runs send no notifications

        return notify(self.folder, self.plan, state)

    def _begin(self, ready: int) -> None:
        self.counts.update(self.plan.done)
        self.counts["queued"] = self.plan.tasks - self.counts.total()
        self._queue_again()
        self.awaited = [Path(each).name for each in self.plan.after]
        self._record("queued" if self.plan.after or self._may_wait() else "running")
        if self.states.late:  # nothing has started yet, and nobody would see that it does
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        with suppress(BrokenPipeError):  # its starter was killed: the run continues
            os.write(ready, b"ready")
        os.close(ready)

    def end(self, why: str) -> None:
        """Asks for an early end; called from a signal handler."""
        self.ending = self.ending or why

    def _running_tasks(self) -> list[Task]:
        return [each.task for each in self.running]

    @property
    def _left(self) -> str:
        return "lost" if self.ending == MACHINE else "cancelled"

    def _queue_again(self) -> None:
        if not self.plan.retry:
            return
        control.change(self.folder, self.plan.submission, cancelled=None, cancelled_tasks={})
        for each in chain(self._tasks_of("tasks"), self._tasks_of("finally")):
            each.task.record(each.task.status("queued"))
        if self.plan.max_cost:
            from fairway_agent import limits

            nodes = limits.nodes_of(self.folder)
            self.spent = limits.node_seconds(self.folder, nodes, time.time()).seconds

    def _await_predecessors(self) -> None:
        if not self.plan.after:
            return
        ended = dependencies.watch(self.plan.after, self.wakeup_writer)
        self._end_cancelled()
        while not ended.is_set() and not self.ending:
            self.states.wait(self.wakeup, None)
            self._end_cancelled()
        if self.ending:
            return
        self.awaited = []
        # No predecessor is watched any longer: one without a final state was lost.
        conditions = self.plan.conditions
        if failed := dependencies.failed_dependencies(
            self.plan.after, conditions, active="was lost"
        ):
            self.reason = f"not started: {', '.join(failed)}"

    def _may_wait(self) -> bool:
        """Returns True if the run's tasks may have to wait for resources of other runs."""
        if self.allocator.lends_nodes:
            return True
        first = next(job_facts.read_specs(self.folder / "tasks.jsonl"), None)
        return first is not None and first.wanted is not None

    def _tasks_of(self, stage: str) -> Iterator[Attempts]:
        """Yields the tasks of a stage, read when they are needed: there may be very many."""
        retry = self.plan.retry
        only = set(retry.only) if retry and stage == "tasks" else None
        for spec in job_facts.read_specs(self.folder / f"{stage}.jsonl"):
            if only is not None and spec.index not in only:
                continue
            folder = Path("setup") if stage == "setup" else Path("tasks", spec.name)
            task = Task(self.plan, spec, self.folder, self.folder / folder, nodes=self.nodes)
            task.states = self.states
            if retry:
                task.resume_count()
            yield Attempts(task, patience=self.patience)

    def _stage(self, stage: str) -> None:
        self.stage, tasks = stage, self._tasks_of(stage)
        while self._next(tasks) or self.running:
            self.blocked = False
            self._end_cancelled()
            self._begin_due(tasks)
            if not self.blocked:
                self.allocator.rest()
            self._keep_limit()
            if self._is_ending():
                tasks = iter(())
                while self.waiting:  # no task gets another attempt now
                    task = self.waiting.popleft().task
                    if task.process is not None:
                        task.record(replace(task.status(self._left), ended=time.time()))
                        self._move("queued", self._left)
                for task in self._running_tasks() if self.ending or self.limit else ():
                    task.stop(self.ending, timed_out=not self.ending)
            if self.running or self.blocked or self.patience.hindrance:
                self._record("running" if self.started else "queued")
                self.states.wait(self.wakeup, self._next_deadline())
                self._look_after_running()
        processes.end_orphans(self._own)

    def _next(self, tasks: Iterator[Attempts]) -> Attempts | None:
        """Returns the task whose turn is next: one that had to wait, or the next of a stage."""
        if not self.waiting:
            self.waiting.extend(islice(tasks, 1))
        return self.waiting[0] if self.waiting else None

    def _begin_due(self, tasks: Iterator[Attempts]) -> None:
        self.patience.hindrance = None
        while not self._is_ending() and not self.patience.hindrance:
            attempts = self._next(tasks)
            if attempts is None:
                break
            is_cancelled = attempts.task.name in self.cancelled
            refusal = "" if is_cancelled else self._allot(attempts.task)
            if refusal is None:
                break
            self.waiting.popleft()
            if is_cancelled:
                self._move("queued", "cancelled")
            else:
                self._start(attempts, refusal)
        if not self.patience.hindrance:
            self.patience.until = None  # another hindrance has its own deadline

    @property
    def _own(self) -> list[int]:
        return [self.guard.pid, self.notified, self.sampling.pid]

    def _is_ending(self) -> bool:
        setup_failed = self.allocator.lends_nodes and self.setup_failed
        return bool(self.ending) or self.limit is not None or setup_failed

    def _allot(self, task: Task) -> str | None:
        """Allocates nodes. Returns "", why the task can never start, or None if it has to wait."""
        limit = self.plan.max_parallel
        if self.running and limit is not None and len(self.running) >= limit:
            return None
        if why := missing_input(task):
            return why
        task.hosts = []
        try:
            hosts = self.allocator.take(task.spec.nodes, task.ranks, task.spec.wanted)
        except NeverFits as unfit:
            return str(unfit)
        except OSError as error:
            return None if self.patience.lasts(error) else str(error)
        self.blocked, task.hosts = hosts is None, hosts or []
        return None if hosts is None else ""

    def _start(self, attempts: Attempts, refusal: str) -> None:
        """Starts a task on its allocated nodes; without its setup a run has failed."""
        task, is_setup = attempts.task, self.stage == "setup"
        name = "the setup" if is_setup else f"task {task.name}"
        if refusal:
            self.reason = f"{name} was not started: {refusal}"
            task.record(replace(task.status("failed"), ended=time.time(), reason=refusal))
            attempts.state = "failed"
        else:
            attempts.start()
            if attempts.state != "running":
                self._give_back(task)
            if attempts.state == "queued":
                self.waiting.appendleft(attempts)
                return
            if attempts.state == "failed":
                self.reason = f"{name}: {task.reason}"
        self._move("queued", attempts.state)
        if attempts.state == "running":
            self.started = self.started or time.time()
            self.guard.watch(task.session)
            self.running.append(attempts)
        elif is_setup:
            self.setup_failed = True

    def _give_back(self, task: Task) -> None:
        loss = self.nodes.loss(task)
        self.allocator.give_back(task.hosts, task.ranks, loss.addresses if loss else ())

    def _look_after_running(self) -> None:
        self.sampling.keep()
        for attempts in list(self.running):
            code, task = attempts.poll(), attempts.task
            if code is None:
                continue
            self.guard.forget(task.session)
            self.running.remove(attempts)
            self.spent += task.held_nodes * (time.monotonic() - task.began)
            processes.reap([*self._own, *(each.session for each in self._running_tasks())])
            self._give_back(task)
            setup_failed = code != 0 and self.nodes.setup_failed(task)
            attempts.decide(code, is_last=self.limit is not None)
            self._move("running", attempts.state)
            if attempts.state == "queued":
                self.waiting.append(attempts)
            elif setup_failed or (self.stage == "setup" and attempts.exit_code and not self.limit):
                self.setup_failed = True
                self.reason = f"the setup failed with exit code {attempts.exit_code}"

    def _end_cancelled(self) -> None:
        """Ends cancelled tasks that run; one that waits is counted when its turn comes. All end if
        the run is cancelled: the command for that may have been killed before its signal."""
        orders = control.read(self.folder).of(self.plan.submission)
        if orders.is_cancelled:
            self.end(CANCELLATION)
        for name in orders.cancelled_names - self.cancelled:
            self.cancelled.add(name)
            if running := [task for task in self._running_tasks() if task.name == name]:
                running[0].stop(CANCELLATION)
                continue
            folder = self.folder / "tasks" / name
            known = state_files.read_task(folder) or TaskState()
            if not known.is_final:
                folder.mkdir(parents=True, exist_ok=True)
                status = replace(known, state="cancelled", ended=time.time())
                self.states.write(folder / state_files.FILE, status)

    def _keep_limit(self) -> None:
        """Updates the limit that the run has exceeded, or the time at which it will exceed one."""
        self.limit_due = None
        if not self.plan.is_limited or self._is_ending():
            return
        from fairway_agent import limits  # most runs have none

        now, clock = time.time(), time.monotonic()
        nodes = [(task.held_nodes, clock - task.began) for task in self._running_tasks()]
        active = sum(count * seconds for count, seconds in nodes)
        usage = limits.NodeUsage(self.spent + active, sum(count for count, _ in nodes))
        if over := limits.exceeded_limit(self.plan, now, self.started, usage):
            self.limit, self.reason = over.limit, over.reason
        elif (due := limits.due(self.plan, now, self.started, usage)) is not None:
            self.limit_due = clock + due - now

    def _move(self, before: str, after: str) -> None:
        if self.stage != "setup":  # the setup is not one of the job's own tasks
            self.counts[before] -= 1
            self.counts[after] += 1

    def _next_deadline(self) -> float | None:
        due = [*(each.next_timer() for each in self.running), self.sampling.due(), self.limit_due]
        if self.blocked and self.allocator.pause is not None:
            due.append(time.monotonic() + self.allocator.pause)
        if self.patience.hindrance:
            due.append(time.monotonic() + state_files.ROOM_PAUSE)
        return min((each for each in due if each is not None), default=None)

    def _outcome(self) -> str:
        # A setup that was told to end has not failed; and a run that was told to end may have ended
        # by itself before.
        setup_failed = self.setup_failed and not self.ending
        ended = state_files.end_state(self.counts, setup_failed=setup_failed)
        return "failed" if self.limit else ended

    def _record(self, state: str) -> None:
        if self.states.late:
            self.reason = self.reason or self.states.why
        ended = None if state in state_files.ACTIVE_STATES else time.time()
        reason = self.reason or self.patience.hindrance
        if state == "queued" and self.awaited:
            reason = f"it comes after {', '.join(self.awaited)}"
        elif state == "queued" and self.blocked:
            reason = self.allocator.reason
        value = RunState(
            state=state,
            reason=reason,
            started=self.started,
            ended=ended,
            supervisor=os.getpid(),
            submission=self.plan.submission,
            tasks={name: count for name, count in self.counts.items() if count > 0},
            exit_code=TIMED_OUT if self.limit else None,
            limit=self.limit,
        )
        if value != self.recorded:
            self.states.write(self.folder / state_files.FILE, value)
            self.recorded = value
        if state == "queued" and not self.notified and (self.blocked or self.plan.after):
            self.notified = self._notify(value) or -1
        if self.states.late:
            # The value is among the late ones, or will be followed by another.
            self.reason = self.reason or self.states.why
            self.recorded = replace(value, reason=self.reason)


def supervise(folder: Path, lock: int, ready: int, plan: RunPlan, **ways: Any) -> None:
    """Runs a run's tasks as the `plan` says; `ways` are fields of `Supervisor`."""
    # Neither descriptor may reach a task, which would make the run seem alive.
    os.set_inheritable(lock, False)
    os.set_inheritable(ready, False)
    mark = f"{ways.get('nodes', Nodes).MARK}={folder}#"
    guard = processes.Guard((lock, ready), _GUARD_GRACE, lambda text: text.startswith(mark))
    processes.adopt_orphans()
    wakeup, writer = processes.signal_wakeups(signal.SIGCHLD, signal.SIGHUP, signal.SIGINT)
    supervisor = Supervisor(folder, plan, guard, wakeup, writer, **ways)
    for number, why in ((signal.SIGUSR1, CANCELLATION), (signal.SIGTERM, MACHINE)):
        signal.signal(number, lambda *_, why=why: supervisor.end(why))
    supervisor.run(ready)


def main() -> None:
    folder, lock, ready = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.environ.update(json.load(sys.stdin))  # only into this process's memory
    try:
        plan = job_facts.read_plan(folder, retry="retry" in sys.argv[4:])
        supervise(folder, lock, ready, plan)
    except AgentError as fault:
        sys.exit(fault.said)


if __name__ == "__main__":
    main()
