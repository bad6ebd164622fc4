"""Where a task, or a job's setup, stands: what the file `state.json` in its folder holds. Standard
library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields
from fairway_agent.record import FINAL_STATES, state_of
from fairway_agent.share import ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_agent.share import Share

ERROR, NODE, PREEMPTION = "error", "node", "preemption"
"""Why an attempt did not end well."""
CANCELLATION, MACHINE = "cancellation", "machine"
"""Why else a task is told to end: somebody cancels it, or the machine of its supervisor stops."""
SERVICE, NO_START, IO_ERROR, TIMED_OUT = 5, 69, 74, 124
CANCELLED, KILLED, TERMINATED = 130, 137, 143
"""The exit codes of tasks that ended otherwise than by their own: what runs them failed; they could
not begin; something could not be read or written (these two are EX_UNAVAILABLE and EX_IOERR of
sysexits.h); their time was over; they were cancelled; or a signal ended them."""
BestTasks = Mapping[str, tuple[int, float]]
"""By the names of inputs that the best tasks of other runs have kept: their numbers, and the values
of the metric by which they are the best."""


def outcome(told: str, code: int, *, again: bool) -> tuple[str, int]:
    """The state of a task when an attempt has ended with an exit code, and the code that counts.

    `told` is why it was told to end for a reason that is not its own: CANCELLATION, MACHINE, or
    NODE or PREEMPTION where it loses nodes; "" where it was not. Such an attempt has not done its
    work, even if it saves and ends with 0. `again` says that the task may begin again.
    """
    if told == CANCELLATION:
        return "cancelled", code
    if told:
        code = code or TERMINATED
    if told == MACHINE:
        return "lost", code
    if not code:
        return "succeeded", 0
    return ("queued" if again else "failed"), code


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task, or a setup: its state and why; its last attempt, from 0, or −1 before the first;
    since when that runs and when it ended, in seconds since 1970; how it ended.

    `held` is for how many seconds its attempts that have ended had their nodes, `node` where it
    runs (the names of several are joined by commas), `last_exit_code` that of the attempt before,
    and `log_size` how many bytes an ended task has printed. `job`, `submission`, `failures` and
    `stopped` are Slurm's: its id of the job, the start of the run that this was for, how many
    attempts failed in it, and whether Slurm ended it. `requeues` counts how often Slurm or Batch
    began the task elsewhere. `ends` counts the attempts of this start of the run that did not end
    well, by their cause: an `error`, a `node` that was lost, a `preemption`. `task` and
    `task_attempt` say which attempt ran a setup. `gpus` and `cores` are the numbers of those that
    it has, and `part` how large a part of the node that is, where it has not the whole. `best` says
    which tasks of other runs kept its inputs, where that was decided as it began. `empty_outputs`
    names the outputs of a task that has succeeded in which there was no file.
    """

    state: str = "queued"
    attempt: int | None = None
    started: float | None = None
    ended: float | None = None
    held: float | None = None
    exit_code: int | None = None
    timed_out: bool | None = None
    reason: str | None = None
    node: str | None = None
    session: int | None = None
    last_exit_code: int | None = None
    log_size: int | None = None
    job: str | None = None
    submission: int | None = None
    failures: int | None = None
    requeues: int | None = None
    stopped: bool | None = None
    ends: Mapping[str, int] | None = None
    task: str | None = None
    task_attempt: int | None = None
    gpus: str | None = None
    cores: str | None = None
    part: float | None = None
    best: BestTasks | None = None
    empty_outputs: tuple[str, ...] | None = None

    def with_share(self, share: Share) -> TaskState:
        """The same of a task that has a share of its node."""
        gpus, cores = ranges(share.gpus), ranges(share.cores)
        return replace(self, gpus=gpus, cores=cores, part=round(share.part, 6))

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.state in FINAL_STATES

    @property
    def attempts(self) -> int:
        """How many were begun."""
        return 0 if self.attempt is None else self.attempt + 1

    @property
    def again(self) -> TaskState:
        """It is to run again: its attempts count on."""
        return TaskState(attempt=self.attempt, started=self.started, held=self.held)

    @property
    def ends_with_this(self) -> dict[str, int]:
        """How its attempts ended, where the one that it says runs was cut short: by Slurm, or with
        its node."""
        ends = dict(self.ends or {})
        if self.state == "running":
            cause = PREEMPTION if self.stopped else NODE
            ends[cause] = ends.get(cause, 0) + 1
        return ends

    @classmethod
    def from_json(cls, facts: object) -> TaskState:
        """Unfit for what is not one."""
        fields = Fields(facts, "the state")
        found = {name: _READ[name](fields, name) for name in fields.facts if name in _READ}
        return cls(state=state_of(fields), **found)

    def to_json(self) -> dict[str, object]:
        """As `state.json` has it: what is not known is left out."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}


def best_tasks(fields: Fields) -> BestTasks:
    """The field `best` of a record; Unfit where it is something else."""
    found = {}
    for name, value in fields.mapping("best").items():
        if not isinstance(value, list) or len(value) != 2:
            raise fields.unfit("best")
        own = Fields(dict(zip(("task", "value"), value, strict=True)), f"`best` of {fields.what}")
        found[name] = own.count("task"), own.number("value")
    return found


_READ: dict[str, Callable[[Fields, str], Any]] = {
    "attempt": Fields.whole_or_none,
    "started": Fields.moment_or_none,
    "ended": Fields.moment_or_none,
    "held": Fields.moment_or_none,
    "exit_code": Fields.whole_or_none,
    "timed_out": Fields.flag_or_none,
    "reason": Fields.text_or_none,
    "node": Fields.text_or_none,
    "session": Fields.whole_or_none,
    "last_exit_code": Fields.whole_or_none,
    "log_size": Fields.count_or_none,
    "job": Fields.text_or_none,
    "submission": Fields.count_or_none,
    "failures": Fields.count_or_none,
    "requeues": Fields.count_or_none,
    "stopped": Fields.flag_or_none,
    "ends": Fields.counts,
    "task": Fields.text_or_none,
    "task_attempt": Fields.whole_or_none,
    "gpus": Fields.text_or_none,
    "cores": Fields.text_or_none,
    "part": Fields.span_or_none,
    "best": lambda fields, _: best_tasks(fields),
    "empty_outputs": Fields.texts,
}
