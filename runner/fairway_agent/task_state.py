"""Where a task, or a job's setup, stands: what the file `state.json` in its folder holds. Standard
library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.json_record import JsonRecord, Moment, Number, Whole
from fairway_agent.record import FINAL_STATES, STATES
from fairway_agent.share import ranges

if TYPE_CHECKING:
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
BestTasks = Mapping[str, tuple[int, Number]]
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
class TaskState(JsonRecord):
    """A task, or a setup: its state and why; its last attempt, from 0, or −1 before the first;
    since when that runs and when it ended, in seconds since 1970; how it ended.

    `held` is for how many seconds its attempts that have ended had their nodes, `node` where it
    runs (the names of several are joined by commas), `last_exit_code` that of the attempt before,
    and `log_size` how many bytes an ended task has printed. `job`, `submission` and
    `stopped` are a scheduler's: its id of the job, the submission that this was for, and whether
    the scheduler ended it. `requeues` counts how often Slurm or Batch
    began the task elsewhere. `ends` counts the attempts of this start of the run that did not end
    well, by their cause: an `error`, a `node` that was lost, a `preemption`. `task` and
    `task_attempt` say which attempt ran a setup. `gpus` and `cores` are the numbers of those that
    it has, and `part` how large a part of the node that is, where it has not the whole. `best` says
    which tasks of other runs kept its inputs, where that was decided as it began. `empty_outputs`
    names the outputs of a task that has succeeded in which there was no file.
    """

    CALLED = "the state"
    SPARSE = True
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"state": STATES}

    state: str = "queued"
    attempt: Whole | None = None
    started: Moment | None = None
    ended: Moment | None = None
    held: Moment | None = None
    exit_code: Whole | None = None
    timed_out: bool | None = None
    reason: str | None = None
    node: str | None = None
    session: Whole | None = None
    last_exit_code: Whole | None = None
    log_size: int | None = None
    job: str | None = None
    submission: int | None = None
    requeues: int | None = None
    stopped: bool | None = None
    ends: Mapping[str, int] | None = None
    task: str | None = None
    task_attempt: Whole | None = None
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
