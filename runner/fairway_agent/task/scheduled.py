"""A task that a scheduler has started: this process runs its attempts, until its end is written or
the scheduler takes its nodes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import control, processes, scratch, state_files
from fairway_agent.fanout import remote_exec
from fairway_agent.prepare import SETUP_FAILED, has_failed, has_setup
from fairway_agent.state_files import CANCELLED, IO_ERROR, NODE, PREEMPTION, SERVICE, TERMINATED
from fairway_agent.task.attempts import Attempts, Backend, missing_input, said_of
from fairway_agent.task.task import Nodes, Task
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from fairway_agent.limits import Watch
    from fairway_agent.spec import RunPlan, TaskSpec


def scratch_folder(task: Task) -> Path:
    """Returns the task's own folder on each node's local disk, where runs of the same ID may be."""
    own = control.digest(task.run_folder)
    return scratch.root() / "tasks" / f"{task.plan.run}-{task.name}-{own}"


def is_prepared(task: Task) -> bool:
    """Returns True if the task's nodes need nothing but folders before its script."""
    return not task.plan.staged and not has_setup(task.run_folder)


class SharedNodes(Nodes):
    """Nodes that share the run's folder; those that a scheduler chose run attempts on the first."""

    IS_HERE: ClassVar = False
    LOSSES_ARE_FAILURES: ClassVar = False

    def prepare(self, task: Task) -> None:
        """Forgets what the previous attempt reported about its nodes."""
        task.folder.mkdir(parents=True, exist_ok=True)
        for name in (SETUP_FAILED, remote_exec.LOST_NODES):
            (task.folder / name).unlink(missing_ok=True)

    def setup_failed(self, task: Task) -> bool:
        # Listed, because a node that has looked for a missing file may cache that it is missing.
        with suppress(FileNotFoundError):  # somebody has removed the run
            return any(each.name == SETUP_FAILED for each in task.folder.iterdir())
        return False

    def leave(self, task: Task) -> None:
        super().leave(task)
        scratch.remove(scratch_folder(task))

    def facts(self, task: Task) -> dict[str, Any]:
        names = ",".join(host.name for host in task.hosts)
        return {"node": names or None, "submission": task.submission}

    def session_folder(self, task: Task) -> Path:
        return scratch_folder(task) / f"mpi{task.attempt}"

    def directories(self, task: Task) -> dict[str, Path]:
        """Returns the directories, without the one on each node's disk; see `contract`."""
        found = super().directories(task)
        del found["FAIRWAY_SCRATCH_DIR"]
        own = found["FAIRWAY_CHECKPOINT_DIR"]  # unless it is absolute
        found["FAIRWAY_CHECKPOINT_DIR"] = task.run_folder.parents[1] / "checkpoints" / own
        return found

    def contract(self, task: Task) -> dict[str, str]:
        """Adds the paths of staged inputs and of the task's own folders on each node."""
        shared = task.run_folder.parents[1]
        inputs = {
            f"FAIRWAY_INPUT_{entry.name.upper()}": str(scratch.input_folder(shared, entry))
            for entry in task.plan.staged
        }
        own = {"FAIRWAY_SCRATCH_DIR": str(scratch_folder(task))}
        return {**inputs, **own, "FAIRWAY_TASK_FOLDER": str(task.folder), "FAIRWAY_MPI_ARGS": ""}


_ROOM_WAIT = 600.0  # seconds for a full disk to have room again, while the nodes cost money
_START_PAUSE = 10.0  # seconds between two starts, if the cause of a failure may disappear
LOST = {PREEMPTION: "its nodes were taken away", NODE: "a node of it was lost"}
ENDED, TIME, LIMIT, HAND_OVER = "ended", "time", "limit", "hand-over"
"""Reasons why a scheduler asks a task to end: it is cancelled, or to be restarted; its time is
over; the run exceeds one of its limits; its nodes are about to go."""


@dataclass
class Scheduled(Backend):
    """Backend of a task under a scheduler. `asked` is how the scheduler, a user through it, or the
    run's own limit wants the task to end, and `passed_on` how the task was told to."""

    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError, AgentError)
    # Errors that always end the task, for example a damaged file.
    FAULTS: ClassVar[tuple[type[Exception], ...]] = (AgentError,)
    # Reason of an attempt that the scheduler has ended; and of the next one's start, if the cause
    # of that end is known, and if it is not.
    STOPPED: ClassVar = "ended by its scheduler"
    BEFORE: ClassVar = "the one before was ended, and begun again"
    BEGUN_AGAIN: ClassVar = "the one before was lost, and begun again"
    # True if another attempt after a failure starts in this process, not through the scheduler.
    RETRIES_HERE: ClassVar = True

    wakeup: socket.socket
    watch: Watch
    asked: str = ""
    passed_on: str = ""

    def ask(self, how: str) -> Callable[..., None]:
        """Returns the handler of a signal that asks for this kind of end."""

        def handle(*_: object) -> None:
            self.asked = how

        return handle

    def may_begin(self, task: Task) -> bool:
        """Returns True if the runs that this one depends on have ended as required."""
        return True

    def prepare(self, task: Task) -> None:
        """Prepares this process for the task's attempts."""

    def begin(self, task: Task) -> bool:
        """Forgets why the previous attempt ended, which the log says now."""
        self.before_file(task).unlink(missing_ok=True)
        return True

    def look(self, task: Task) -> None:
        if not self.asked and self.watch.is_over():
            self.asked = LIMIT
        if self.asked != self.passed_on:
            self.passed_on = self.asked
            is_over = self.asked in (TIME, LIMIT)
            task.stop("" if is_over else PREEMPTION, timed_out=is_over)

    def next_timer(self) -> float | None:
        if self.watch.due is None or self.asked:
            return None
        return time.monotonic() + self.watch.due - time.time()

    def is_cancelled(self, task: Task) -> bool:
        """Returns True if the user has cancelled the run, or this task of it."""
        known = control.read(task.run_folder).of(task.submission or 0)
        return known.cancels(task.name)

    def interrupted(self, attempts: Attempts, code: int) -> bool:
        """Returns True if its nodes go, or the scheduler ends it: for a user who cancels it, or to
        start it again elsewhere. Which is known once this has ended; see `reconcile`."""
        task = attempts.task
        if self.asked == HAND_OVER:
            self.hand_over(attempts, code)
        elif self.asked != ENDED:
            return False
        elif self.is_cancelled(task):
            attempts.finish("cancelled", CANCELLED)
        else:
            store_first_line(self.before_file(task), self.BEFORE)
            status = replace(task.status("running"), stopped=True, ended=time.time())
            task.record(replace(status, exit_code=code, reason=self.STOPPED))
            attempts.state, attempts.exit_code = "stopped", TERMINATED
        return True

    def hand_over(self, attempts: Attempts, code: int) -> None:
        """Has the task restarted on other nodes."""

    def close(self, task: Task) -> None:
        """Does what follows the task's end."""

    def resume(self, task: Task) -> None:
        task.resume_count(self.ended_before(task))

    def ended_before(self, task: Task) -> str:
        """Returns why the attempt before this process ended, if it was of the same submission."""
        with suppress(OSError):
            return self.before_file(task).read_text(encoding="utf-8")
        return self.BEGUN_AGAIN

    def before_file(self, task: Task) -> Path:
        """Returns the file with that reason, which the task's own state has lost while it waits."""
        return task.folder / "before.txt"


def task_in(run: Path, plan: RunPlan, spec: TaskSpec, nodes: Nodes, submission: int) -> Task:
    """Returns the task of that line of the plan, with its folder in the run's."""
    folder = run / "tasks" / spec.name
    retry_until_room(lambda: folder.mkdir(parents=True, exist_ok=True))
    return Task(plan, spec, run, folder, nodes=nodes, submission=submission)


def prepare(attempts: Attempts, scheduler: Scheduled) -> None:
    """Prepares this process for a task's attempts, or writes its end if it must not begin: it or
    its run is cancelled or over a limit, a run before it did not end as required, its setup has
    failed, an input is missing, or it has lost its nodes more often than it may."""
    task = attempts.task
    scheduler.resume(task)
    if not scheduler.may_begin(task):
        attempts.finish("cancelled", CANCELLED)
        return
    retry_until_room(scheduler.watch.begin)
    scheduler.prepare(task)
    lost = [LOST[each] for each in (PREEMPTION, NODE) if task.retries_exhausted(each)]
    if scheduler.is_cancelled(task) or has_failed(task.run_folder) or scheduler.watch.is_over():
        attempts.finish("cancelled", CANCELLED)
    elif why := missing_input(task):
        attempts.finish("failed", IO_ERROR, why)
    elif lost:
        attempts.finish("failed", SERVICE, lost[0])


def run_attempts(attempts: Attempts, scheduler: Scheduled) -> int:
    """Runs a task until its end is written; returns the exit code for the scheduler."""
    try:
        prepare(attempts, scheduler)
        _run(attempts, scheduler)
    except scheduler.FAULTS as fault:
        task = attempts.task
        if attempts.state == "running":  # its programs have their signal and grace
            task.stop()
            while task.ended() is None:
                processes.wait(scheduler.wakeup, task.next_timer())
                task.check_timers()
        attempts.finish("failed", IO_ERROR, said_of(fault))
    attempts.task.states.await_room(scheduler.wakeup, _ROOM_WAIT)
    scheduler.close(attempts.task)
    return attempts.exit_code


def _run(attempts: Attempts, scheduler: Scheduled) -> None:
    while attempts.state == "queued":
        attempts.start()
        while attempts.state == "running":
            code = attempts.poll()
            if code is None:
                attempts.task.states.wait(scheduler.wakeup, attempts.next_timer())
            else:
                is_last = bool(scheduler.asked) or not scheduler.RETRIES_HERE
                attempts.decide(code, is_last=is_last)
        if attempts.state == "queued" and attempts.patience.hindrance:
            task = attempts.task
            task.record(replace(task.status("queued"), reason=attempts.patience.hindrance))
            task.states.wait(scheduler.wakeup, time.monotonic() + _START_PAUSE)
            if scheduler.watch.is_over():
                attempts.finish("cancelled", CANCELLED)
            elif scheduler.asked:
                attempts.decide(CANCELLED, is_last=True)


def store_first_line(file: Path, why: str) -> None:
    """Stores the first line of the task's log for the next time that the scheduler starts it."""
    with suppress(OSError):
        file.write_text(why, encoding="utf-8")


def read_secrets(run: Path, plan: RunPlan) -> None:
    """Fetches the job's secrets into this process's memory, which passes them to the task."""
    if plan.secrets:
        from fairway_agent import access  # slow to import

        os.environ.update(access.secrets_of(run))


def retry_until_room(action: Callable[[], object]) -> None:
    """Calls the function until the disk has room, for 600 seconds at most. Raises OSError."""
    end = time.monotonic() + _ROOM_WAIT
    while True:
        try:
            action()
        except OSError as error:
            if error.errno not in state_files.NO_ROOM or time.monotonic() > end:
                raise
            time.sleep(state_files.ROOM_PAUSE)
        else:
            return
