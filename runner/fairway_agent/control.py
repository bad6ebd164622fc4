"""State of a run beyond its tasks: `control.json` in the run's folder.

`parts` are the jobs that the scheduler was asked for, and `complete` is true if it has all of them.
`cancelled` is the submission that the user has cancelled, and `cancelled_tasks` the tasks cancelled
one by one. `started` is the time at which the run became active, and `limit` the limit of its own
that it has exceeded. `failed_dependencies` lists the reasons against starting the run, once the
runs that it depends on have ended. `notified` lists the events that were reported to somebody.
`final` holds the tasks whose final state is known, and `best` the tasks of other runs whose outputs
this run uses. All fields but `best` belong to one submission, which counts the starts of the run
from 0.

On Kubernetes `ended` holds the Jobs and pods that the controller has ended, and `blocked` the tasks
or objects that cannot start, each with the reason; `lacking` holds the tasks whose first pod waits
for others: the reason, and when nodes were last started for these, 0 for never.

A program holds `control.lock` while it changes a field. One that hands a run over to its scheduler,
or takes it back, holds `submit.lock`, and takes `control.lock` within.

On this machine and on a plain cluster a supervisor runs a run's tasks. It is started here,
detached, and holds the run's `lock` for as long as it lives. Signals tell it to look, or to end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import records, state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import InvalidRecord, JsonRecord, UnreadableFile
from fairway_agent.resources import ResourceRequest, numbers_of, ranges
from fairway_agent.spec import FIGURES, LAST
from fairway_agent.state_files import BestTasks, ExceededLimit, RunState
from fairway_boot import files

if TYPE_CHECKING:
    import signal
    from pathlib import Path

FILE, LOCK, SUBMIT_LOCK = "control.json", "control.lock", "submit.lock"
_HELD = threading.local()  # folders whose lock this thread holds
_MOST = 1_000_000  # tasks of a run


class Numbers(tuple[int, ...]):
    """Task numbers, written as ranges because there may be very many.

    >>> Numbers([0, 1, 2, 5]).to_json(), Numbers.from_json("0-2,5")
    ('0-2,5', (0, 1, 2, 5))
    """

    __slots__ = ()

    @classmethod
    def from_json(cls, facts: object) -> Numbers:
        try:
            found = numbers_of(str(facts), _MOST)
        except ValueError as error:
            raise InvalidRecord(str(error)) from None
        return cls(found)

    def to_json(self) -> str:
        return ranges(sorted(self))


@dataclass(frozen=True)
class Part(JsonRecord, label="a part"):
    """Tasks of one `stage` (`tasks` or `finally`) that the scheduler runs as one job. `indices` are
    the tasks' numbers, and their elements in an array; `job` is "" until it is submitted. `gpus`
    and `cores` are each task's share of its node, unless it takes all of it, and `node_fraction` is
    that share as a fraction."""

    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"stage": ("tasks", "finally")}

    stage: str
    number: int
    indices: Numbers
    nodes: int
    width: int
    job: str = ""
    gpus: int | None = None
    cores: int | None = None
    node_fraction: float | None = None

    @property
    def wanted(self) -> ResourceRequest | None:
        return ResourceRequest.of(self.gpus, self.cores)

    def task_name(self, index: int) -> str:
        return LAST if self.stage == "finally" else str(index)

    def task_folder(self, run: Path, index: int) -> Path:
        return run / "tasks" / self.task_name(index)

    @property
    def names(self) -> list[str]:
        """Names of its tasks."""
        return [self.task_name(index) for index in self.indices]

    @property
    def is_array(self) -> bool:
        return len(self.indices) > 1

    def job_and_index(self, index: int) -> tuple[str, int]:
        return self.job, index if self.is_array else -1

    def comment(self, run: Path, submission: int) -> str:
        """Returns the comment by which the scheduler's job is found if its submitter was killed."""
        return f"{own_comment(run)}{self.stage} {self.number} {submission}"


def digest(run: Path) -> str:
    """Returns a digest of the path of a run's folder: a run of that ID in another shared folder has
    another one."""
    import hashlib  # reading the record needs none

    return hashlib.sha256(os.fsencode(os.path.realpath(run))).hexdigest()[:8]


def own_comment(run: Path) -> str:
    """Returns how the comments of a run's jobs begin, and those of no other run."""
    return f"fairway {run.name} {digest(run)} "


@dataclass(frozen=True)
class Control(JsonRecord, label="the control record"):
    """Control record of a run; the module's docstring describes the fields."""

    VERSION = records.FORMAT

    submission: int = 0
    parts: tuple[Part, ...] = ()
    complete: bool = False
    cancelled: int | None = None
    cancelled_tasks: Mapping[str, int] = field(default_factory=dict)
    started: float | None = None
    limit: ExceededLimit | None = None
    failed_dependencies: tuple[str, ...] | None = None
    notified: tuple[str, ...] = ()
    final: Mapping[str, Numbers] = field(default_factory=dict)
    best: BestTasks = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def is_cancelled(self) -> bool:
        """True if the user has cancelled the run, with all its tasks."""
        return self.cancelled is not None and self.cancelled >= self.submission

    @property
    def cancelled_names(self) -> set[str]:
        """Names of the tasks that the user has cancelled one by one."""
        return {
            name
            for name, submission in self.cancelled_tasks.items()
            if submission >= self.submission and (name.isdecimal() or name == LAST)
        }

    @property
    def jobs(self) -> list[str]:
        """Ids of the scheduler's jobs."""
        return [part.job for part in self.parts if part.job]

    def cancels(self, task: str) -> bool:
        """Returns True if the user has cancelled a task, by itself or with its run."""
        return self.is_cancelled or task in self.cancelled_names

    def of(self, submission: int) -> Control:
        """Returns the record for a submission. For a submission other than the recorded one it
        holds only the cancellations and `best`, as nothing else is known yet."""
        if self.submission == submission:
            return self
        kept = {name: getattr(self, name) for name in ("cancelled", "cancelled_tasks", "best")}
        return Control(submission, **kept)


def read(folder: Path) -> Control:
    """Returns a run's control record, or an empty one. Raises AgentError if the file is damaged."""
    return records.read(folder / FILE, Control.from_json) or Control()


def change(folder: Path, submission: int, **values: Any) -> None:
    """Changes fields of a submission's record. A later submission begins with an empty record;
    changes to an earlier one are ignored."""
    with locked(folder):
        known = read(folder)
        if submission >= known.submission:
            new = replace(known.of(submission), **values)
            if new != known:
                files.write_json(folder / FILE, new.to_json())


def cancel(folder: Path, submission: int, task: str = "") -> None:
    """Records that a submission, or only its `task` of that name, is to end."""
    with locked(folder):
        known = read(folder)
        named = {"cancelled_tasks": {**known.cancelled_tasks, task: submission}}
        change(folder, known.submission, **(named if task else {"cancelled": submission}))


def note_part(folder: Path, submission: int, part: Part) -> None:
    """Records the scheduler's job for a part of a submission."""
    with locked(folder):
        known = read(folder).of(submission).parts
        parts = tuple(part if each.number == part.number else each for each in known)
        change(folder, submission, parts=parts)


def note_blocked(folder: Path, submission: int, name: str, why: str) -> None:
    """Records why something cannot start; "" removes the reason."""
    _note(folder, submission, "blocked", name, why or None)


def note_lacking(folder: Path, submission: int, task: str, why: str, since: float) -> None:
    """Records why a task's first pod waits for others, or "", and when nodes last started."""
    _note(folder, submission, "lacking", task, (why, since) if why else None)


def _note(folder: Path, submission: int, name: str, key: str, value: Any) -> None:
    """Changes one entry of a mapping in the record; None removes it."""
    with locked(folder):
        kept = {**getattr(read(folder).of(submission), name), key: value}
        kept = {each: kept[each] for each in kept if kept[each] is not None}
        change(folder, submission, **{name: kept})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the record's lock within the block; a thread that has it may take it again."""
    held: set[Path] = _HELD.__dict__.setdefault("folders", set())
    if folder in held:
        yield
        return
    with files.hold_lock(folder / LOCK):
        held.add(folder)
        try:
            yield
        finally:
            held.discard(folder)


PAUSE = 0.02  # seconds to wait until a supervisor has recorded its process ID


def start_supervisor(
    module: str,
    folder: Path,
    lock: int,
    environment: Mapping[str, str],
    *,
    retry: bool,
    said: bytes = b"",
) -> None:
    """Starts the supervisor of a run, for all of its tasks or for a retry, hands it the run's lock
    and pipes `said` to it; returns once it is under way. Raises AgentError if it does not start."""
    import subprocess  # reading the record starts nothing

    from fairway_agent import processes

    file, (started, ready) = folder / "supervisor.log", os.pipe()
    words = [*processes.program(module), str(folder), str(lock), str(ready)] + ["retry"] * retry
    try:
        with file.open("wb") as log:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(lock, ready),
                start_new_session=True,
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:  # if it has died, see below
            process.stdin.write(said)
        # Waiting for it avoids a zombie in a long-running program.
        threading.Thread(target=process.wait, name="supervisor", daemon=True).start()
    finally:
        os.close(ready)
    with os.fdopen(started, "rb") as answer:
        if not answer.read():
            why = file.read_text(errors="replace").strip().splitlines() or ["it gave no reason"]
            message = f"the run's supervisor did not start: {why[-1]}"
            hint = f"see all that it says, on {os.uname().nodename}: cat {file}"
            raise files.AgentError("not-started", message, hint)


def end_supervisor(folder: Path, submission: int) -> RunState:
    """Has a run's supervisor end it for a user, and returns the state before. This is recorded
    first, and holds if the supervisor dies before it has ended the run."""
    import signal

    with suppress(UnreadableFile, OSError):  # the signal says it too
        cancel(folder, submission)
    return signal_supervisor(folder, signal.SIGUSR1)


def signal_supervisor(folder: Path, number: signal.Signals) -> RunState:
    """Sends a signal to a run's supervisor, if there is one, and returns the state before."""
    status = state_files.read_run(folder) or RunState()
    while status.supervisor is None and is_supervised(folder):
        time.sleep(PAUSE)  # it is about to record its process ID
        status = state_files.read_run(folder) or RunState()
    # While the lock is held, the process ID has not been reused.
    if status.is_active and status.supervisor is not None and is_supervised(folder):
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(status.supervisor, number)
    return status


def is_supervised(folder: Path) -> bool:
    """Returns True if another process holds the run's lock."""
    return state_files.is_held(files.open_lock(folder / "lock"))


def lost_state(folder: Path, state: RunState, reason: str) -> RunState:
    """Returns the state of a run whose supervisor is gone, with its last sign of life as its end:
    a change of its state, or a sample of a node. A run that was being cancelled is cancelled."""
    ended = 0.0
    for sign in (folder / state_files.FILE, *(folder / FIGURES).glob("*.jsonl")):
        with suppress(OSError):
            ended = max(ended, sign.stat().st_mtime)
    with suppress(UnreadableFile):
        if read(folder).of(state.submission).is_cancelled:
            return replace(state, state="cancelled", reason=None, ended=ended or None)
    return replace(state, state="lost", reason=state.reason or reason, ended=ended or None)
