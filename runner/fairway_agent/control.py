"""What is under way with a run beside its tasks: `control.json` in its folder.

    parts, complete   the jobs that its scheduler was asked for, and whether it has them all
    cancelled         the submission that a person has ended; `cancelled_tasks` each by itself
    started, limit    since when it goes on, and which limit of its own it is over
    unmet             what speaks against it, once the runs have ended that it comes after
    notified          the events that somebody was told of
    final             the tasks whose last state is known
    best              which tasks of other runs kept its inputs
    ended             the Jobs and pods that Kubernetes' controller has ended, and why
    blocked           what does not start there, and why: tasks, or what the controller makes

All of it but what is `best` is of one submission: which time the run was started, from 0.

A program that changes something holds `control.lock` for as long as that takes. One that hands a
run over to its scheduler, or takes it back, holds `submit.lock`, and takes the other within.
Standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import job_facts, record, records
from fairway_agent.limits import Over
from fairway_agent.records import JsonRecord, Unfit
from fairway_agent.resources import Wanted, numbers_of, ranges
from fairway_agent.spec import LAST
from fairway_agent.state_files import BestTasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE, LOCK, SUBMIT_LOCK = "control.json", "control.lock", "submit.lock"
_HELD = threading.local()  # the folders whose lock this thread holds
_MOST = 1_000_000  # tasks of a run


class Numbers(tuple[int, ...]):
    """Numbers of tasks: there may be very many in a row.

    >>> Numbers([0, 1, 2, 5]).to_json(), Numbers.from_json("0-2,5")
    ('0-2,5', (0, 1, 2, 5))
    """

    __slots__ = ()

    @classmethod
    def from_json(cls, facts: object) -> Numbers:
        """Unfit for what are none."""
        try:
            found = numbers_of(str(facts), _MOST)
        except ValueError as error:
            raise Unfit(str(error)) from None
        return cls(found)

    def to_json(self) -> str:
        """As ranges."""
        return ranges(sorted(self))


@dataclass(frozen=True)
class Part(JsonRecord):
    """Tasks of one `stage` (`tasks` or `finally`) that the scheduler has as one job.

    `indices` are the tasks' numbers; `job` is "" until it is submitted. As an array each task's
    number is its element's. `gpus` and `cores` are what each takes of its node, where that is not
    the whole, and `part` how large a part of the node that is.
    """

    CALLED = "a part"
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"stage": ("tasks", "finally")}

    stage: str
    number: int
    indices: Numbers
    nodes: int
    width: int
    job: str = ""
    gpus: int | None = None
    cores: int | None = None
    part: float | None = None

    @property
    def wanted(self) -> Wanted | None:
        """Resources that each task takes of its node; None for entire nodes."""
        wanted = Wanted(self.gpus, self.cores)
        return None if wanted == Wanted() else wanted

    def task_folder(self, run: Path, index: int) -> Path:
        """The folder of one of its tasks."""
        name = job_facts.last_name(run) if self.stage == "finally" else None
        return run / "tasks" / (name or str(index))

    @property
    def is_array(self) -> bool:
        """True if the part is an array."""
        return len(self.indices) > 1

    def element(self, index: int) -> tuple[str, int]:
        """The job and the element of a task."""
        return self.job, index if self.is_array else -1

    def comment(self, run: str, submission: int) -> str:
        """What marks the job as this part, by which it is found again whatever befell the program
        that submitted it."""
        return f"fairway {run} {self.stage} {self.number} {submission}"


@dataclass(frozen=True)
class Control(JsonRecord):
    """See the module's docstring for the fields."""

    CALLED = "the control record"
    VERSION = 1

    submission: int = 0
    parts: tuple[Part, ...] = ()
    complete: bool = False
    cancelled: int | None = None
    cancelled_tasks: Mapping[str, int] = field(default_factory=dict)
    started: float | None = None
    limit: Over | None = None
    unmet: tuple[str, ...] | None = None
    notified: tuple[str, ...] = ()
    final: Mapping[str, Numbers] = field(default_factory=dict)
    best: BestTasks = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cancelled(self) -> bool:
        """Whether a person has ended the whole run."""
        return self.cancelled is not None and self.cancelled >= self.submission

    @property
    def cancelled_names(self) -> set[str]:
        """The names of tasks that a person has ended, each by itself."""
        return {
            name
            for name, submission in self.cancelled_tasks.items()
            if submission >= self.submission and (name.isdecimal() or name == LAST)
        }

    def has_ended(self, task: str) -> bool:
        """True if a person has cancelled a task, by itself or with its run."""
        return self.is_cancelled or task in self.cancelled_names

    def of(self, submission: int) -> Control:
        """The same of a submission: of a later one nothing is known yet but what is to end."""
        if self.submission == submission:
            return self
        kept = {name: getattr(self, name) for name in ("cancelled", "cancelled_tasks", "best")}
        return Control(submission, **kept)


def read(folder: Path) -> Control:
    """What is known of a run; of one of which nothing is, an empty record. Fault where the file is
    damaged."""
    return records.read(folder / FILE, Control.from_json) or Control()


def change(folder: Path, submission: int, **values: Any) -> None:
    """Changes fields of a submission's record; a later submission begins with an empty one, and of
    an earlier one nothing is written any more."""
    with locked(folder):
        known = read(folder)
        if submission >= known.submission:
            new = replace(known.of(submission), **values)
            if new != known:
                record.write_json(folder / FILE, new.to_json())


def cancel(folder: Path, submission: int, task: str = "") -> None:
    """Notes that a submission is to end, or of it the `task` of that name alone."""
    with locked(folder):
        known = read(folder)
        if task:
            named = {**known.cancelled_tasks, task: submission}
            change(folder, known.submission, cancelled_tasks=named)
        else:
            change(folder, known.submission, cancelled=submission)


def note_blocked(folder: Path, submission: int, name: str, why: str) -> None:
    """Notes what keeps something from starting; "" says that nothing does any more."""
    with locked(folder):
        blocked = dict(read(folder).of(submission).blocked)
        if why != blocked.pop(name, ""):
            change(folder, submission, blocked={**blocked, name: why} if why else blocked)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else changes the record meanwhile. Who holds it already may ask again."""
    held: set[Path] = _HELD.__dict__.setdefault("folders", set())
    if folder in held:
        yield
        return
    with record.alone(folder / LOCK):
        held.add(folder)
        try:
            yield
        finally:
            held.discard(folder)
