"""What a run is to do, as the files of its folder say it. The runner writes and reads them by
these types, and so does whatever runs where its tasks run. Standard library only.

plan.json       what holds for all tasks: `RunPlan`
setup.jsonl     one line, where the job has a setup: a `task_spec.TaskSpec`
release.jsonl   the same of what nodes of the setup run when the run has ended
tasks.jsonl     a line a task: its script and what differs from task to task
finally.jsonl   one line, where the job has a last task, which is called `finally`
retry.json      what holds when tasks of an ended run are run again: `Retry`
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields, Unfit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_agent.task_state import BestTasks

VERSION = 1
"""Of these files: a release that cannot read what an older one wrote counts it up."""


@dataclass(frozen=True, slots=True)
class Staged:
    """An input that is copied from storage before a task starts: the blobs below `path` of a
    container. `stage` says where to: `scratch` is each node's own disk, `shared` the folder of all
    nodes; `to` is a folder that the job names. `account` is the storage account's address, which
    is known where the task runs. `source` is the folder of the project that submits from which they
    are brought into storage first, where that is so; see `Chained`."""

    name: str
    container: str
    path: str
    stage: str
    to: str | None = None
    account: str = ""
    source: str | None = None

    @classmethod
    def from_json(cls, facts: object) -> Staged:
        """Unfit for what is not one."""
        fields = Fields(facts, "a staged input")
        return cls(
            name=fields.text("name"),
            container=fields.text("container"),
            path=fields.text("path"),
            stage=fields.text("stage"),
            to=fields.text_or_none("to"),
            source=fields.text_or_none("source"),
        )

    def to_json(self) -> dict[str, str]:
        """As `plan.json` has it."""
        facts = {"name": self.name, "container": self.container, "path": self.path}
        if self.to is not None:
            facts["to"] = self.to
        if self.source is not None:
            facts["source"] = self.source
        return {**facts, "stage": self.stage}


@dataclass(frozen=True, slots=True)
class Best:
    """Which task of a run is the best: that whose last value of a metric, which its pattern finds
    in what tasks print, is the lowest, or the highest."""

    metric: str
    pattern: str
    lower: bool

    @classmethod
    def from_json(cls, facts: object) -> Best:
        """Unfit for what is not one."""
        fields = Fields(facts, "`best`")
        return cls(fields.text("metric"), fields.text("pattern"), fields.flag("lower"))


@dataclass(frozen=True, slots=True)
class Chained:
    """An input that a task of another run has kept: the folder `path`, below the one in which the
    folder `runs` is. It is copied there from `source`, the same in the project that submits, where
    it is not the other run's own. A `*` in `path` stands for the number of a task: of the `best`
    one, which is known once the other run has ended."""

    name: str
    path: str
    source: str | None = None
    best: Best | None = None

    def path_for(self, best: BestTasks) -> str:
        """The folder, where these are the best tasks by the names of inputs."""
        if self.best is None:
            return self.path
        return self.path.replace("/*/", f"/{best[self.name][0]}/", 1)

    @classmethod
    def from_json(cls, facts: object) -> Chained:
        """Unfit for what is not one."""
        fields = Fields(facts, "an input of another run")
        best = fields.facts.get("best")
        return cls(
            fields.text("name"),
            fields.text("path"),
            fields.text_or_none("source"),
            None if best is None else Best.from_json(best),
        )

    def to_json(self) -> dict[str, object]:
        """As `plan.json` has it."""
        facts = asdict(self)
        return facts if self.best else {name: facts[name] for name in ("name", "path", "source")}


@dataclass(frozen=True, slots=True)
class Mail:
    """Who hears of the run by mail: through which server (`HOST` or `HOST:PORT`), and from whom. A
    server that wants a `user` gets the password that the job's secret of this name holds."""

    to: tuple[str, ...]
    server: str
    sender: str
    user: str = ""
    secret: str | None = None

    @classmethod
    def from_json(cls, facts: object) -> Mail:
        """Unfit for what is not one."""
        fields = Fields(facts, "`notify.mail`")
        return cls(
            to=fields.texts("to"),
            server=fields.text("server"),
            sender=fields.text("sender"),
            user=fields.text("user"),
            secret=fields.text_or_none("secret"),
        )


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who hears of the run: at which address ("" for none), `on` which events, in which form, and
    who by mail. `secret` names the job's secret that holds the address."""

    webhook: str
    on: tuple[str, ...]
    form: str
    secret: str | None = None
    mail: Mail | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that it takes to tell them."""
        names = (self.secret, self.mail.secret if self.mail else None)
        return tuple(name for name in names if name is not None)

    @classmethod
    def from_json(cls, facts: object) -> Receiver:
        """Unfit for what is not one."""
        fields = Fields(facts, "`notify`")
        mail = fields.facts.get("mail")
        return cls(
            webhook=fields.text("webhook"),
            on=fields.texts("on"),
            form=fields.text("form"),
            secret=fields.text_or_none("secret"),
            mail=None if mail is None else Mail.from_json(mail),
        )

    def to_json(self) -> dict[str, object]:
        """As `plan.json` has it."""
        facts = asdict(self)
        if self.mail is None:
            del facts["mail"]
        return facts


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may cost at most, in a `currency`, and what a node cost an hour when it was
    submitted."""

    most: float
    currency: str
    hourly: float

    @property
    def node_seconds(self) -> float:
        """For how many seconds one node may be held.

        >>> Budget(200.0, "USD", 12.5).node_seconds / 3600
        16.0
        """
        return self.most / self.hourly * 3600

    @property
    def text(self) -> str:
        """As people write it.

        >>> Budget(200.0, "USD", 12.5).text, Budget(0.5, "EUR", 12.5).text
        ('200 USD', '0.50 EUR')
        """
        return f"{f'{self.most:,.2f}'.removesuffix('.00')} {self.currency}"

    @classmethod
    def from_json(cls, facts: object) -> Budget:
        """Unfit for what is not one."""
        fields = Fields(facts, "`max_cost`")
        found = cls(fields.span("most"), fields.text("currency"), fields.span("hourly"))
        if not found.hourly:
            raise fields.unfit("hourly")
        return found


CANCEL, WARN = "cancel", "warn"
CONDITIONS = ("succeeded", "failed", "ended")
"""How a run that another comes after may have to end; a list of exit codes says which it has."""


@dataclass(frozen=True, slots=True)
class IdleGpu:
    """`below` how many percent the GPUs of a task are not busy, for how many `seconds` that may
    go on, and what comes `then`: the task's end, or a warning."""

    below: float
    seconds: float
    then: str

    @classmethod
    def from_json(cls, facts: object) -> IdleGpu:
        """Unfit for what is not one."""
        fields = Fields(facts, "`idle_gpu`")
        found = cls(fields.span("below"), fields.span("seconds"), fields.text("then"))
        if found.then not in (CANCEL, WARN):
            raise fields.unfit("then")
        return found


@dataclass(frozen=True, slots=True)
class Retry:
    """Tasks of an ended run that run again: `only` their numbers, `done` how many of the others
    ended in which state, `is_set_up` whether the setup is left out. `after` takes the place of the
    plan's, unless it is None. `submission` counts the times that the run was started, from 0."""

    only: tuple[int, ...]
    done: Mapping[str, int] = field(default_factory=dict)
    is_set_up: bool = False
    after: tuple[str, ...] | None = None
    submission: int = 0

    @classmethod
    def from_json(cls, facts: object) -> Retry:
        """Unfit for what is not one."""
        fields = Fields(facts, "the retry")
        only = fields.each("only")
        if "only" not in fields.facts or not all(type(each) is int for each in only):
            raise fields.unfit("only")
        return cls(
            only=tuple(only),
            done=fields.counts("done"),
            is_set_up=fields.flag("is_set_up"),
            after=fields.texts("after") if "after" in fields.facts else None,
            submission=fields.count_or_none("submission") or 0,
        )

    def to_json(self) -> dict[str, object]:
        """As `retry.json` has it."""
        facts: dict[str, object] = {
            "only": self.only,
            "done": self.done,
            "is_set_up": self.is_set_up,
        }
        if self.after is not None:
            facts["after"] = self.after
        if self.submission:
            facts["submission"] = self.submission
        return facts


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What holds for all tasks of a run.

    `tasks` counts them, the one of `finally:` included; `directory` is where they run, `after`
    names the runs to wait for, `conditions` how those of them must have ended that need not have
    succeeded, by their IDs, and `needs` the programs that the main host must have.

    `timeout` is that of an attempt, `max_duration` that of the run, `sample_every` the time between
    two samples of the nodes, and `grace` what a task has after its `signal`, all in seconds.
    `max_cost` is what the run may cost, `idle_gpu` for how long the GPUs of a task may do nothing.
    `retries` is for how many failures a task begins again; `retry_limits` is for how many ends by
    what is no failure of its own, by their cause. `secrets` are the names of variables, and
    `environment` holds what every task is told. `retry` says that some tasks run again.
    """

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
    chained: tuple[Chained, ...] = ()
    retry: Retry | None = None

    @property
    def done(self) -> Mapping[str, int]:
        """How many tasks ended in which state before, and do not run again."""
        return self.retry.done if self.retry else {}

    @property
    def is_set_up(self) -> bool:
        """Whether the setup is left out."""
        return self.retry is not None and self.retry.is_set_up

    def awaits(self, entry: Chained) -> bool:
        """Whether an input is what one of the runs keeps that this one comes after: it is there
        once these have ended, and of the best task it is known then which that is."""
        if entry.best is not None:
            return True
        runs = {each.rpartition("/")[2] for each in self.after}
        return entry.path.startswith("runs/") and entry.path.split("/")[1] in runs

    @property
    def submission(self) -> int:
        """Which time the run is started, from 0."""
        return self.retry.submission if self.retry else 0

    def again(self, retry: Retry) -> RunPlan:
        """The plan of that retry."""
        after = self.after if retry.after is None else retry.after
        return replace(self, retry=retry, after=after)

    @classmethod
    def from_json(cls, facts: object) -> RunPlan:
        """Unfit for what is not a plan, and for one that a newer release wrote."""
        fields = Fields(facts, "the plan")
        # A release that did not number its plans wrote the first version.
        version = fields.count("version") if "version" in fields.facts else VERSION
        if version != VERSION:
            raise Unfit(f"its version is {version}, and this release reads {VERSION}")
        return cls(
            run=fields.text("run"),
            directory=fields.text("directory"),
            tasks=fields.count("tasks"),
            max_parallel=fields.count_or_none("max_parallel"),
            after=fields.texts("after"),
            conditions=_conditions(fields.mapping("conditions")),
            needs=fields.texts("needs"),
            retries=fields.count("retries"),
            retry_limits=fields.counts("retry_limits"),
            timeout=fields.span_or_none("timeout"),
            max_duration=fields.span_or_none("max_duration"),
            max_cost=_budget(fields.facts.get("max_cost")),
            idle_gpu=_idle_gpu(fields.facts.get("idle_gpu")),
            sample_every=fields.span_or_none("sample_every"),
            signal=fields.text("signal"),
            grace=fields.span("grace"),
            secrets=fields.texts("secrets"),
            notify=_receiver(fields.facts.get("notify")),
            environment=fields.variables("environment"),
            staged=tuple(map(Staged.from_json, fields.each("staged"))),
            chained=tuple(map(Chained.from_json, fields.each("chained"))),
        )

    def to_json(self) -> dict[str, object]:
        """As `plan.json` has it."""
        return {
            "version": VERSION,
            "run": self.run,
            "tasks": self.tasks,
            "max_parallel": self.max_parallel,
            "directory": self.directory,
            "after": self.after,
            "needs": self.needs,
            "retries": self.retries,
            "timeout": self.timeout,
            "max_duration": self.max_duration,
            "sample_every": self.sample_every,
            "signal": self.signal,
            "grace": self.grace,
            "secrets": self.secrets,
            "notify": self.notify.to_json() if self.notify else None,
            "environment": self.environment,
            "staged": [each.to_json() for each in self.staged],
            **({"retry_limits": self.retry_limits} if self.retry_limits else {}),
            **({"max_cost": asdict(self.max_cost)} if self.max_cost else {}),
            **({"idle_gpu": asdict(self.idle_gpu)} if self.idle_gpu else {}),
            **({"chained": [each.to_json() for each in self.chained]} if self.chained else {}),
            **({"conditions": self.conditions} if self.conditions else {}),
        }

    def text(self) -> str:
        """The text of `plan.json`."""
        return json.dumps(self.to_json(), indent=1)


def _conditions(facts: Mapping[str, Any]) -> dict[str, str | list[int]]:
    for run, wanted in facts.items():
        codes = wanted if isinstance(wanted, list) else []
        are_codes = codes and all(type(each) is int for each in codes)
        if not are_codes and not (isinstance(wanted, str) and wanted in CONDITIONS):
            raise Fields(facts, "`conditions`").unfit(run)
    return dict(facts)


def _budget(facts: object) -> Budget | None:
    return None if facts is None else Budget.from_json(facts)


def _idle_gpu(facts: object) -> IdleGpu | None:
    return None if facts is None else IdleGpu.from_json(facts)


def _receiver(facts: object) -> Receiver | None:
    return None if facts is None else Receiver.from_json(facts)
