"""The attempts of one task that a scheduler has started, until its end is written. Standard library
only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control, record, wakeups
from fairway_agent.setup import has_failed
from fairway_agent.task_state import (
    CANCELLED,
    ERROR,
    IO_ERROR,
    NODE,
    PREEMPTION,
    SERVICE,
    TERMINATED,
    outcome,
)
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from fairway_agent import state_files
    from fairway_agent.plan import RunPlan
    from fairway_agent.shared.task import ScheduledTask
    from fairway_agent.shared.watch import Watch

_ROOM_WAIT = 600.0  # seconds in which a disk may have room again; the nodes are paid for meanwhile
LOST = {PREEMPTION: "its nodes were taken away", NODE: "a node of it was lost"}


@dataclass
class Attempts:
    """One task's attempts; `asked` is how the scheduler, a person by it, or the run's own limit
    wants it to end."""

    # Why an attempt ended that the scheduler has ended, and why the next begins; and what it may
    # raise while an attempt begins.
    STOPPED: ClassVar = "ended by its scheduler"
    BEFORE: ClassVar = "the one before was ended, and begun again"
    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError, Fault)
    # Seconds between two starts, where what keeps an attempt from being started may pass.
    PAUSE: ClassVar = 10.0

    task: ScheduledTask
    states: state_files.States
    wakeup: socket.socket
    watch: Watch
    asked: str = ""

    def run(self) -> int:
        """Runs it until its end is written; the exit code that the scheduler sees."""
        code = self._run()
        self.states.await_room(self.wakeup, _ROOM_WAIT)
        self.notify_end()
        return code

    def refuse(self, reason: str) -> int:
        """Says that it could not be begun, or not go on; the exit code that the scheduler
        sees."""
        status = self.task.status("failed")
        self.task.record(replace(status, ended=time.time(), exit_code=IO_ERROR, reason=reason))
        self.states.await_room(self.wakeup, _ROOM_WAIT)
        self.notify_end()
        return IO_ERROR

    def leave_out(self, why: str | None = None) -> int:
        """Says that it does not begin, after all; the exit code that the scheduler sees."""
        code = self._not_begun(why)
        self.states.await_room(self.wakeup, _ROOM_WAIT)
        self.notify_end()
        return code

    def _not_begun(self, why: str | None = None) -> int:
        status = replace(self.task.status("cancelled"), ended=time.time())
        self.task.record(replace(status, reason=why or status.reason))
        return CANCELLED

    def notify_end(self) -> None:
        """Has the end of the run told, where this is the last of its tasks and nobody else does."""

    def _run(self) -> int:
        run = self.task.run_folder
        if self.is_cancelled or has_failed(run) or self.watch.is_over():
            return self._not_begun()
        if why := self.task.missing_input():
            return self.finish("failed", IO_ERROR, reason=why)
        if lost := [each for each in (PREEMPTION, NODE) if self.task.is_used_up(each)]:
            return self.finish("failed", SERVICE, reason=LOST[lost[0]])
        while True:
            number, reason = self.task.attempt, None
            try:
                code = self._attempt()
            except self.REFUSED as error:
                code, reason = IO_ERROR, f"it could not be started: {error}"
                if not self._may_pass(error):
                    return self.finish("failed", code, reason=reason)
                self.task.attempt, self.task.told = number, ""  # it has had no process
                wakeups.wait(self.wakeup, time.monotonic() + self.PAUSE)
            if self.asked == "hand-over":
                return self.handed_over(code)
            if self.asked == "ended":
                return self.stopped(code)
            again = bool(code or self.task.told) and self._begins_again()
            state, code = outcome(self.task.told, code, again=again)
            if state != "queued":
                return self.finish(state, code, reason=reason)
            status = replace(self.task.status("queued"), last_exit_code=code, reason=reason)
            self.task.record(status)

    def _begins_again(self) -> bool:
        """Counts an attempt that did not end well; whether another follows."""
        cause = self.task.cause()
        self.task.note_end()
        is_lost = cause != ERROR and not self.task.is_used_up(cause)
        self.task.failures += not is_lost
        is_left = is_lost or self.task.has_retry()
        return is_left and not self.asked and not self.task.setup_failed()

    def _may_pass(self, error: Exception) -> bool:
        """Whether what kept an attempt from being started may pass; no process has begun then."""
        is_passing = isinstance(error, OSError) and error.errno in record.PASSING
        return is_passing and (
            self.task.process is None or self.task.process.returncode is not None
        )

    def begin(self) -> bool:
        """Waits for what an attempt needs; False where it is asked to end before."""
        return True

    def _attempt(self) -> int:
        if not self.begin():
            return CANCELLED
        self.task.start()
        stopping = ""
        while True:
            if not self.asked and self.watch.is_over():
                self.asked = "limit"
            if self.asked and self.asked != stopping:
                stopping = self.asked
                is_over = stopping in ("time", "limit")
                self.task.stop("" if is_over else PREEMPTION, timed_out=is_over)
            self.task.keep_deadline()
            if self.task.sampling is not None:
                self.task.sampling.keep()
            code = self.task.ended()
            if code is not None:
                return code
            self._wait()

    def _wait(self) -> None:
        """For a signal, for the task's deadline, or for room on a disk that is full."""
        due = [self.task.deadline()]
        if self.task.sampling is not None:
            due.append(self.task.sampling.due())
        if self.watch.due is not None and not self.asked:
            due.append(time.monotonic() + self.watch.due - time.time())
        if self.states.late:
            due.append(time.monotonic() + record.ROOM_PAUSE)
        wakeups.wait(self.wakeup, min((each for each in due if each is not None), default=None))
        self.states.write_late()

    @property
    def is_cancelled(self) -> bool:
        """Whether a person has ended the run, or this task of it."""
        known = control.read(self.task.run_folder).of(self.task.submission)
        return known.has_ended(self.task.name)

    def stopped(self, code: int) -> int:
        """The scheduler ends it: because somebody cancelled it, or to start it again elsewhere.
        Which of the two is said when this has ended; see `reconcile`."""
        if self.is_cancelled:
            return self.finish("cancelled", CANCELLED)
        self.task.keep_before(self.BEFORE)
        status = replace(self.task.status("running"), stopped=True, ended=time.time())
        self.task.record(replace(status, exit_code=code, reason=self.STOPPED))
        return TERMINATED

    def handed_over(self, code: int) -> int:
        """Its nodes are about to go."""
        return self.stopped(code)

    def finish(self, state: str, code: int, reason: str | None = None) -> int:
        """Writes its last state; the exit code that goes with it."""
        self.task.reason = reason
        known = self.task.finish(state, code)
        return code if known == state else code or IO_ERROR

    def ask(self, how: str) -> Callable[..., None]:
        """The handler of a signal that asks it to end so."""

        def handle(*_: object) -> None:
            self.asked = how

        return handle


def read_secrets(run: Path, plan: RunPlan) -> None:
    """Brings the job's secrets into this process's memory, and from there into the task's."""
    if plan.secrets:
        from fairway_agent import job_secrets  # its imports take longer than the rest

        os.environ.update(job_secrets.secrets_of(run))


def once_there_is_room(action: Callable[[], object]) -> None:
    """Does it, again and again while the disk is full."""
    end = time.monotonic() + _ROOM_WAIT
    while True:
        try:
            action()
        except OSError as error:
            if error.errno not in record.NO_ROOM or time.monotonic() > end:
                raise
            time.sleep(record.ROOM_PAUSE)
        else:
            return
