"""States of a run and of its tasks, and the files that hold them."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.quick import dataclass
from fairway_agent.records import FORMAT, Integer, JsonRecord, Moment, Number, UnreadableFile, read
from fairway_boot import files

if TYPE_CHECKING:
    import socket
    from pathlib import Path

ACTIVE_STATES = frozenset({"queued", "running"})
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})
UNSUCCESSFUL_STATES = FINAL_STATES - {"succeeded"}
STATES = (*sorted(ACTIVE_STATES), *sorted(FINAL_STATES))

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
PASSING = (*NO_ROOM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that may be temporary: full disks, too many processes or open files, no memory."""
ROOM_PAUSE = 1.0  # seconds between two attempts to write to a full disk
WAS_FULL = "the disk was full for a while, and states were written late"


def end_state(counts: Mapping[str, int], *, setup_failed: bool = False) -> str:
    """Returns the state of a run that has ended, given how many of its tasks are in which."""
    if counts.get("failed") or setup_failed:
        return "failed"
    return next((state for state in ("lost", "cancelled") if counts.get(state)), "succeeded")


ERROR, NODE, PREEMPTION = "error", "node", "preemption"
"""Causes of an attempt's unsuccessful end."""
CANCELLATION, MACHINE = "cancellation", "machine"
"""Other causes of a task's end: somebody cancels it, or its supervisor's machine stops."""
SERVICE, NO_START, IO_ERROR, TIMED_OUT = 5, 69, 74, 124
CANCELLED, KILLED, TERMINATED = 130, 137, 143
"""Exit codes of tasks that did not end by themselves: their backend failed; they could not start;
something could not be read or written (these two are EX_UNAVAILABLE and EX_IOERR of sysexits.h);
their time was over; they were cancelled; or a signal ended them."""
BestTasks = Mapping[str, tuple[int, Number]]
"""Best tasks of other runs by the names of the inputs that use their outputs: their numbers, and
the metric's values that make them the best."""


@dataclass(frozen=True, slots=True)
class TaskState(JsonRecord, label="the state"):
    """State of a task, or of a setup, and the reason; its last attempt, from 0, or −1 before the
    first; when that started and ended, in seconds since 1970; how it ended.

    `held` is for how many seconds its ended attempts had their nodes, `node` where it runs (names
    joined by commas), and `log_size` how many bytes an ended task has printed; `begins` has the
    bytes of its log at which its attempts after the first begin. `job`, `submission` and `stopped`
    belong to a scheduler: its job id, the submission that this was for, and true if the scheduler
    ended it. `requeues` counts how often Slurm or Batch restarted the task elsewhere.
    `failures_by_cause` counts the attempts of this start of the run that did not end well, by
    cause: an `error`, a lost `node`, a `preemption`. `gpus` and `cores` are the numbers of its
    devices, and `node_fraction` the fraction of the node, if it has not the entire node. `best`
    says which tasks of other runs kept its inputs, if that was decided when it began.
    `empty_outputs` names the outputs without a file of a task that has succeeded.
    """

    VERSION = FORMAT
    SPARSE = True
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"state": STATES}

    state: str = "queued"
    attempt: Integer | None = None
    started: Moment | None = None
    ended: Moment | None = None
    held: Moment | None = None
    exit_code: Integer | None = None
    timed_out: bool | None = None
    reason: str | None = None
    node: str | None = None
    log_size: int | None = None
    begins: tuple[int, ...] | None = None
    job: str | None = None
    submission: int | None = None
    requeues: int | None = None
    stopped: bool | None = None
    failures_by_cause: Mapping[str, int] | None = None
    gpus: str | None = None
    cores: str | None = None
    node_fraction: float | None = None
    best: BestTasks | None = None
    empty_outputs: tuple[str, ...] | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def attempts(self) -> int:
        return 0 if self.attempt is None else self.attempt + 1

    @property
    def again(self) -> TaskState:
        """State of a task that is to run again: its attempts go on counting."""
        return TaskState(attempt=self.attempt, held=self.held, begins=self.begins)

    @property
    def failures_including_current(self) -> dict[str, int]:
        """Ended attempts by cause, if the running one was cut short: by Slurm, or with its node."""
        failures = dict(self.failures_by_cause or {})
        if self.state == "running":
            cause = PREEMPTION if self.stopped else NODE
            failures[cause] = failures.get(cause, 0) + 1
        return failures


@dataclass(frozen=True, slots=True)
class RunState(JsonRecord, label="the state"):
    """State of a run and the reason; when its last submission started and ended, in seconds since
    1970; its supervisor's process id; that submission's number, from 0; its tasks' count by state.
    `limit` names the limit of its own that it exceeded, and `exit_code` is its code then."""

    VERSION = FORMAT
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"state": STATES}

    state: str = "queued"
    reason: str | None = None
    started: Moment | None = None
    ended: Moment | None = None
    supervisor: Integer | None = None
    submission: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)
    exit_code: Integer | None = None
    limit: str | None = None

    def start_with(self, tasks: Iterable[TaskState]) -> float | None:
        """Returns when this submission started: as known, or with the first of its own `tasks`."""
        began = (each.started for each in tasks if each.started and each.state != "queued")
        return self.started or min(began, default=None)

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


def exit_code_of(state: RunState, codes: Iterable[int | None]) -> int:
    """Returns the job's own code, given those of its setup and of its tasks in their order: 0, or
    that of the first that did not succeed; 124 for a run over its own limit; 130 and 5 for a
    cancelled and a lost one, no matter how its programs ended then."""
    if state.state == "succeeded":
        return 0
    if state.exit_code:
        return state.exit_code
    if state.state == "cancelled":
        return CANCELLED
    return SERVICE if state.state == "lost" else next(filter(None, codes), SERVICE)


FILE = "state.json"


@dataclass
class States:
    """States that a supervisor writes. Those that something temporary, such as a full disk, hinders
    are kept in `late`, the newest of each file, and written later, with `why` as their reason."""

    late: dict[Path, RunState | TaskState] = field(default_factory=dict)
    why: str = WAS_FULL

    def write(self, path: Path, value: RunState | TaskState) -> None:
        self.late[path] = value
        self.write_late()

    def write_late(self) -> None:
        for path in list(self.late):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                files.write_json(path, self.late[path].to_json())
            except OSError as error:
                if error.errno not in PASSING:
                    raise
                if error.errno not in NO_ROOM:
                    self.why = f"states were written late: {error.strerror}"
                for late, value in self.late.items():
                    self.late[late] = replace(value, reason=value.reason or self.why)
                return
            del self.late[path]

    def wait(self, wakeup: socket.socket, deadline: float | None) -> None:
        """Waits as `processes.wait` does, but no longer than until the next try to write late
        states, and writes them then."""
        from fairway_agent import processes  # who reads states waits for nothing

        if self.late:
            again = time.monotonic() + ROOM_PAUSE
            deadline = again if deadline is None else min(deadline, again)
        processes.wait(wakeup, deadline)
        self.write_late()

    def await_room(self, wakeup: socket.socket, longest: float) -> None:
        """Waits until all states are written, for `longest` seconds at most."""
        end = time.monotonic() + longest
        while self.late and time.monotonic() < end:
            self.wait(wakeup, end)


def read_run(folder: Path) -> RunState | None:
    """Reads the state of a run; None before it is written. Raises AgentError if the file is
    damaged."""
    return read(folder / FILE, RunState.from_json)


def read_task(folder: Path) -> TaskState | None:
    """Reads the state of the task, or the setup, in a folder; None if there is none."""
    return read(folder / FILE, TaskState.from_json)


def is_active(folder: Path, submission: int | None = None) -> bool:
    """Returns True if a run, or its `submission`, has yet to end, and its file is not damaged."""
    try:
        known = read_run(folder)
    except UnreadableFile:
        return False
    return known is not None and known.is_active and submission in (None, known.submission)


def is_held(lock: int) -> bool:
    """Returns True if another process holds the lock of a run; closes the descriptor."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def write(folder: Path, state: RunState | TaskState) -> None:
    """Replaces the state file of a folder atomically."""
    files.write_json(folder / FILE, state.to_json())


@dataclass(frozen=True, slots=True)
class ExceededLimit(JsonRecord, label="the limit"):
    """Limit that the run has exceeded: the job's field, and the message for people."""

    limit: str
    reason: str
