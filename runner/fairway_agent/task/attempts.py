"""The attempts of one task: each is started, looked after and ended, and when it has ended, it is
decided whether another follows. Whatever runs tasks does so here: supervisors, jobs of Slurm's,
pods, and tasks of Batch."""

from __future__ import annotations

import time
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import processes, state_files
from fairway_agent.quick import dataclass
from fairway_agent.state_files import CANCELLATION, CANCELLED, ERROR, IO_ERROR, MACHINE, TERMINATED
from fairway_agent.task import launch

if TYPE_CHECKING:
    from fairway_agent.task.task import Task

_STRAY_GRACE = 2.0  # seconds for an attempt of which nobody would know
_START_WAIT = 600.0  # seconds in which what keeps tasks from being started may pass


def has_retry(task: Task, cause: str) -> bool:
    """True if the task may begin again after an attempt that ended for this cause and is already
    counted.

    A cause with a limit in `retry` has that limit. Without one, a lost node is free where a
    scheduler takes nodes away, and counts as a failure elsewhere. Failures have `retries`.
    """
    limits, lost_is_failure = task.plan.retry_limits, task.nodes.LOSSES_ARE_FAILURES
    if task.limit:
        return False
    if cause in limits:
        return not task.retries_exhausted(cause)
    if cause != ERROR and not lost_is_failure:
        return True
    counted = {*task.failures_by_cause} if lost_is_failure else {ERROR}
    failures = sum(task.failures_by_cause[each] for each in counted - limits.keys())
    return failures <= task.plan.retries


def after_attempt(task: Task, code: int, *, is_last: bool = False) -> tuple[str, int]:
    """The state of a task when an attempt has ended with an exit code, and the code that counts.
    An attempt that did not end well is counted; `is_last` says that no other follows it.

    One that was told to end for a reason that is not its own has not done its work, even if it
    saves and ends with 0: somebody has cancelled it, its supervisor's machine stops, or it loses
    nodes.
    """
    stopped_for = task.stopped_for
    if stopped_for == CANCELLATION:
        return "cancelled", code
    if stopped_for == MACHINE:
        return "lost", code or TERMINATED
    if not code and not stopped_for:
        return "succeeded", 0
    loss = task.nodes.loss(task)
    cause = ERROR if loss is None else loss.cause
    task.failures_by_cause[cause] += 1
    again = has_retry(task, cause) and not is_last
    return ("queued" if again else "failed"), code or TERMINATED


@dataclass
class Patience:
    """Patience with what keeps tasks from being started, such as a full disk: for `seconds`,
    `until` a time on the monotonic clock once there is something; `hindrance` is what there is."""

    seconds: float = _START_WAIT
    until: float | None = None
    hindrance: str | None = None

    def lasts(self, error: Exception) -> bool:
        """True if the error may pass, and there is still time for that."""
        if not isinstance(error, OSError) or error.errno not in state_files.PASSING:
            return False
        now = time.monotonic()
        self.until = self.until or now + self.seconds
        if now >= self.until:
            return False
        self.hindrance = f"no task can be started: {error}"
        return True


class Backend:
    """Backend of a task's attempts: its hooks into them. This one changes nothing."""

    # What keeps an attempt from being started, and is no fault of the whole run.
    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def begin(self, task: Task) -> bool:
        """Waits for what an attempt needs; False where it is asked to end before."""
        return True

    def look(self, task: Task) -> None:
        """Tells the task to end where it is to."""

    def next_timer(self) -> float | None:
        """When to look next, on the monotonic clock."""
        return None

    def ended(self, task: Task, code: int) -> int:
        """Hears that an attempt has ended; the exit code that counts."""
        return code

    def interrupted(self, attempts: Attempts, code: int) -> bool:
        """True if the attempt was cut short; the consequence is then recorded."""
        return False

    def refusal(self, error: Exception) -> tuple[int, str]:
        """The exit code of a task that could not be started, and why it ended."""
        return IO_ERROR, f"it could not be started: {error}"


@dataclass
class Attempts:
    """One task's attempts. `state` is what the task is in: `queued` before each attempt, then
    `running`, and once more `queued` or its last one, with its exit code."""

    task: Task
    backend: Backend = field(default_factory=Backend)
    patience: Patience = field(default_factory=Patience)
    state: str = "queued"
    exit_code: int = 0

    def start(self) -> None:
        """Starts the next attempt. Where that fails for what may pass, the task stays queued, and
        `patience` knows the hindrance; for something else it fails."""
        task, number, process = self.task, self.task.attempt, self.task.process
        try:
            if not self.backend.begin(task):
                self.decide(CANCELLED, is_last=True)
                return
            launch.start(task)
        except self.backend.REFUSED as error:
            has_begun = task.process is not process
            if not has_begun:
                task.attempt, task.stopped_for = number, ""
            else:  # though its state could not be written
                processes.end_all(task.sessions, _STRAY_GRACE)
            if has_begun or not self.patience.lasts(error):
                code, reason = self.backend.refusal(error)
                self.finish("failed", code, reason)
            return
        self.patience.until = self.patience.hindrance = None
        self.state = "running"

    def poll(self) -> int | None:
        """Does what is due; the exit code of the attempt once it has ended."""
        self.backend.look(self.task)
        self.task.check_timers()
        code = self.task.ended()
        return None if code is None else self.backend.ended(self.task, code)

    def next_timer(self) -> float | None:
        """When to poll next, if nothing happens before, on the monotonic clock."""
        due = (self.task.next_timer(), self.backend.next_timer())
        return min((each for each in due if each is not None), default=None)

    def decide(self, code: int, *, is_last: bool = False) -> None:
        """Records what follows an attempt that has ended with an exit code."""
        if self.backend.interrupted(self, code):
            return
        task = self.task
        setup_failed = code != 0 and task.nodes.setup_failed(task)
        state, code = after_attempt(task, code, is_last=is_last or setup_failed)
        if state != "queued":
            self.finish(state, code)
            return
        self.state, self.exit_code = state, code
        why = task.failure_reason()
        task.record(replace(task.status("queued"), last_exit_code=code, reason=why))

    def finish(self, state: str, code: int, reason: str | None = None) -> None:
        self.task.reason = reason or self.task.reason
        self.state = self.task.finish(state, code)
        self.exit_code = code if self.state == state else code or IO_ERROR
