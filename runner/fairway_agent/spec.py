"""Plan of a run, as the files of its folder record it. The runner writes and reads them by these
types, and so do the programs that run where its tasks run.

    plan.json       settings of all tasks: `RunPlan`
    setup.jsonl     one line, if the job has a setup: a `TaskSpec`
    release.jsonl   likewise, for what nodes of the setup run when the run has ended
    tasks.jsonl     a line per task: its script and what differs from task to task
    finally.jsonl   one line, if the job has a last task, which is called `finally`
    retry.json      settings for running tasks of an ended run again: `Retry`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent.quick import dataclass
from fairway_agent.records import FORMAT, Fields, JsonRecord
from fairway_agent.resources import ResourceRequest

if TYPE_CHECKING:
    from fairway_agent.state_files import BestTasks


@dataclass(frozen=True, slots=True)
class Staged(JsonRecord, label="a staged input"):
    """An input that is copied from storage before a task starts: the blobs below `path` of a
    container. `stage` says where to: `scratch` is each node's own disk, `shared` the folder of all
    nodes; `to` is a folder that the job names. `account` is the address of the storage account,
    which is known where the task runs. `source`, if set, is the folder of the submitting project
    from which the blobs are uploaded first; see `RunOutputInput`."""

    name: str
    container: str
    path: str
    stage: str
    to: str | None = None
    account: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Best(JsonRecord, label="`best`"):
    """Choice of a run's best task: the one whose last value of a metric, found in the tasks' output
    by the pattern, is the lowest or the highest."""

    metric: str
    pattern: str
    lower: bool


@dataclass(frozen=True, slots=True)
class RunOutputInput(JsonRecord, label="an input of another run"):
    """An input that a task of another run has kept: the folder `path`, relative to the parent of
    the folder `runs`. If that is not the other run's own project, it is copied from `source`, the
    same folder in the submitting project. A `*` in `path` stands for the number of the `best` task,
    which is known once the other run has ended."""

    name: str
    path: str
    source: str | None = None
    best: Best | None = None

    def path_for(self, best: BestTasks) -> str:
        """Returns the folder, given the best tasks by the names of inputs."""
        if self.best is None:
            return self.path
        return self.path.replace("/*/", f"/{best[self.name][0]}/", 1)


@dataclass(frozen=True, slots=True)
class Mail(JsonRecord, label="`notify.mail`"):
    """Mail recipients of a run's notifications, with the server (`HOST` or `HOST:PORT`) and the
    sender. If the server requires a `user`, the job's `secret` of this name holds the password."""

    to: tuple[str, ...]
    server: str
    sender: str
    user: str = ""
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Receiver(JsonRecord, label="`notify`"):
    """Recipients of a run's notifications: the address of a webhook ("" for none), or the job's
    `secret` that holds it; the events (`on`) to report; the format; and the mail recipients."""

    webhook: str
    on: tuple[str, ...]
    form: str
    secret: str | None = None
    mail: Mail | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that delivery needs."""
        names = (self.secret, self.mail.secret if self.mail else None)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class Budget(JsonRecord, label="`max_cost`"):
    """Cost limit of a run, in a `currency`, and the hourly price of a node at submission."""

    most: float
    currency: str
    hourly: float

    @property
    def node_seconds(self) -> float:
        """Node-seconds that the budget pays for.

        >>> Budget(200.0, "USD", 12.5).node_seconds / 3600
        16.0
        """
        return self.most / self.hourly * 3600

    @property
    def text(self) -> str:
        """Amount and currency, formatted for people.

        >>> Budget(200.0, "USD", 12.5).text, Budget(0.5, "EUR", 12.5).text
        ('200 USD', '0.50 EUR')
        """
        return f"{f'{self.most:,.2f}'.removesuffix('.00')} {self.currency}"

    def check(self, found: Fields) -> None:
        if not self.hourly:
            raise found.invalid("hourly")


CANCEL, WARN = "cancel", "warn"
"""Actions on a task with idle GPUs."""


@dataclass(frozen=True, slots=True)
class IdleGpu(JsonRecord, label="`idle_gpu`"):
    """Rule for idle GPUs: they count as idle `below` a percentage of use; after that many `seconds`
    the task ends, or a warning is given, as `then` says."""

    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"then": (CANCEL, WARN)}

    below: float
    seconds: float
    then: str


@dataclass(frozen=True, slots=True)
class Retry(JsonRecord, label="the retry"):
    """Tasks of an ended run that run again: `only` their numbers, `done` how many of the others
    ended in which state, `is_set_up` true if the setup is skipped. `after` replaces the plan's,
    unless it is None. `submission` counts the starts of the run, from 0."""

    only: tuple[int, ...]
    done: Mapping[str, int] = field(default_factory=dict)
    is_set_up: bool = False
    after: tuple[str, ...] | None = None
    submission: int = 0


@dataclass(frozen=True, slots=True)
class RunPlan(JsonRecord, label="the plan"):
    """Settings of a run that hold for all its tasks.

    `tasks` counts them, including `finally:`. `directory` is where they run. `after` names the runs
    to wait for; `conditions` says, by run ID, how those must have ended that need not have
    succeeded. `needs` lists the programs that the main host must have.

    `timeout` limits an attempt and `max_duration` the run, `sample_every` is the time between two
    samples of the nodes, and `grace` is the time a task has after its `signal`, all in seconds.
    `max_cost` limits the cost of the run, and `idle_gpu` how long the GPUs of a task may be idle.
    `retries` is the number of failures after which a task is retried; `retry_limits` is the number
    of retries for other ends, by their cause. `secrets` are names of variables, and `environment`
    holds the variables that every task gets. `retry` says that some tasks run again.
    """

    VERSION = FORMAT

    run: str
    directory: str
    tasks: int = 1
    max_parallel: int | None = None
    after: tuple[str, ...] = ()
    conditions: Mapping[str, str | list[int]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    retries: int = 0
    retry_limits: Mapping[str, int] = field(default_factory=dict)
    timeout: float | None = None
    max_duration: float | None = None
    max_cost: Budget | None = None
    idle_gpu: IdleGpu | None = None
    sample_every: float | None = None
    signal: str = "TERM"
    grace: float = 10.0
    secrets: tuple[str, ...] = ()
    notify: Receiver | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    staged: tuple[Staged, ...] = ()
    run_inputs: tuple[RunOutputInput, ...] = ()
    retry: Retry | None = None

    @property
    def done(self) -> Mapping[str, int]:
        """Number of tasks, by state, that have ended before and do not run again."""
        return self.retry.done if self.retry else {}

    @property
    def is_set_up(self) -> bool:
        """True if the setup is skipped."""
        return self.retry is not None and self.retry.is_set_up

    @property
    def is_limited(self) -> bool:
        """True if the run itself has a limit."""
        return self.max_duration is not None or self.max_cost is not None

    def awaits(self, entry: RunOutputInput) -> bool:
        """Returns True if an input is an output of one of the runs that this one depends on: it
        exists once these have ended, and only then is the best task known."""
        if entry.best is not None:
            return True
        runs = {each.rpartition("/")[2] for each in self.after}
        return entry.path.startswith("runs/") and entry.path.split("/")[1] in runs

    @property
    def submission(self) -> int:
        return self.retry.submission if self.retry else 0

    def check(self, found: Fields) -> None:
        for run, wanted in self.conditions.items():
            is_known = isinstance(wanted, list) or wanted in ("succeeded", "failed", "ended")
            if not wanted or not is_known:
                raise Fields(self.conditions, f"`conditions` of {found.what}").invalid(run)

    def text(self) -> str:
        return json.dumps(self.to_json(), indent=1)


LINES = ("setup.jsonl", "release.jsonl", "tasks.jsonl", "finally.jsonl")
"""Files of a run's folder with one line per task."""
RECORD = (
    *("run.json", "job.yaml", "job.json", "target.json", "plan.json", "provenance.json"),
    *("code.diff", *LINES),
)
"""Files of a run's folder that describe the submission."""
LAST = "finally"
"""Name of the task that runs after all others."""
_NAMES = ("setup", "release", LAST)


@dataclass(frozen=True, slots=True)
class Output(JsonRecord, label="an output"):
    """Files that a task keeps: those below its output folder that match the `pattern`, or one of
    those in `also`, `when` it ended with success, with failure, or always. `exclude` holds shell
    patterns of paths and names to leave out. A `required` output must not be empty."""

    pattern: str
    when: str
    also: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern, *self.also)


@dataclass(frozen=True, slots=True)
class TaskSpec(JsonRecord, label="a task"):
    """One task: its number or name; its point of a sweep; its size; its outputs; the directory of
    its checkpoints, if the job names one; its own variables; its script. `wanted` is its share of a
    node, unless it takes the entire node."""

    SPARSE = True

    index: int | str
    nodes: int = 1
    processes_per_node: int = 1
    script: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    checkpoint: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    wanted: ResourceRequest | None = None

    @property
    def name(self) -> str:
        """The task's number, from 0, or `setup`, or `finally`."""
        return str(self.index)

    @property
    def is_last(self) -> bool:
        """True if it runs after all others, and sees their outputs."""
        return self.index == LAST

    def check(self, found: Fields) -> None:
        if isinstance(self.index, str) and self.index not in _NAMES:
            raise found.invalid("index")
        if self.wanted is not None and self.wanted.cores == 0:
            raise found.invalid("wanted")

    def line(self) -> str:
        return json.dumps(self.to_json()) + "\n"


FIGURES = "figures"
"""Folder in a run's folder with a file of samples for each node."""
