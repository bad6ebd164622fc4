"""Facts about a run's job and target for the programs that run its tasks, besides the plan: the
contents of `job.json` and `target.json` in the run's folder."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import NamedTuple

from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, Integer, JsonRecord, parse, read
from fairway_agent.spec import Retry, RunPlan, TaskSpec
from fairway_boot import files

PRIORITIES = {"low": -500, "normal": 0, "high": 500}
"""Priorities by name, from −1000 to 1000: the highest one starts first."""


@dataclass(frozen=True, slots=True)
class Container(JsonRecord, label="the container"):
    """The container of a job's tasks: its image, extra runtime options, and the size of /dev/shm,
    in Docker's notation, if the job sets one."""

    image: str
    options: tuple[str, ...] = ()
    shm_size: str | None = None


@dataclass(frozen=True, slots=True)
class JobFacts(JsonRecord, label="the job"):
    """A job's container, if it has one; its `priority`, a word of PRIORITIES or a number; the
    sources of its secrets by their variables; and its `setup`, as the job has it."""

    container: Container | None = None
    priority: Integer | str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    setup: object = None

    @property
    def priority_word(self) -> str:
        """Name of its priority, `normal` by default; "" for a number without a name."""
        if isinstance(self.priority, str):
            return self.priority
        number = self.priority or 0
        return next((word for word, known in PRIORITIES.items() if known == number), "")

    @property
    def setup_is_admin(self) -> bool:
        """True if its setup runs as root."""
        return isinstance(self.setup, dict) and Fields(self.setup, "`setup`").flag("admin")

    def check(self, found: Fields) -> None:
        if isinstance(self.priority, str) and self.priority not in PRIORITIES:
            raise found.invalid("priority")


class TargetFacts(NamedTuple):
    """A target: its name and its engine's, the mounts of each node, the addresses of its storage
    account and its vault ("" for none), and the largest number of nodes (0 for no limit). `queue`
    is the machines' own folder in which runs queue for hosts, and `identity` that of a Batch pool,
    "" if it has none. For pods see `kubernetes.settings`."""

    name: str = ""
    engine: str = ""
    mounts: Mapping[str, str] = {}
    account_url: str = ""
    vault_url: str = ""
    most_nodes: int = 0
    queue: str = ""
    identity: str = ""

    @classmethod
    def from_json(cls, facts: object) -> TargetFacts:
        fields = Fields(facts, "the target")
        sections = ("storage", "nodes", "ssh", "batch")
        storage, nodes, ssh, batch = (
            Fields(fields.facts.get(name) or {}, f"`{name}` of the target") for name in sections
        )
        return cls(
            name=fields.text_or_none("name") or "",
            engine=fields.text_or_none("engine") or "",
            mounts=fields.variables("mounts"),
            account_url=(storage.text_or_none("account_url") or "").rstrip("/"),
            vault_url=fields.text_or_none("vault_url") or "",
            most_nodes=nodes.or_none("max", nodes.count) or 0,
            queue=ssh.text_or_none("queue") or "",
            identity=batch.text_or_none("identity") or "",
        )


def of_job(run: Path) -> JobFacts:
    """Reads the facts about the run's job. Raises AgentError if the file is damaged."""
    return read(run / "job.json", JobFacts.from_json) or JobFacts()


def of_target(run: Path) -> TargetFacts:
    """Reads the facts about the run's target; defaults if there is no `target.json`."""
    return read(run / "target.json", TargetFacts.from_json) or TargetFacts()


_OFFSET = struct.Struct(">Q")


def read_plan(folder: Path, *, retry: bool = False) -> RunPlan:
    """Reads a run's plan; with `retry`, that of the tasks that run again."""
    path = folder / "plan.json"
    plan = parse(path, path.read_bytes(), RunPlan.from_json)
    wanted = read_retry(folder) if retry else None
    if wanted is None:
        return plan
    after = plan.after if wanted.after is None else wanted.after
    return replace(plan, retry=wanted, after=after)


def read_retry(folder: Path) -> Retry | None:
    """Reads which tasks of a run run again; None if the run was never retried."""
    return read(folder / "retry.json", Retry.from_json)


def read_spec(path: Path, offset: int = 0) -> TaskSpec:
    """Reads the task whose line begins at that byte of a file."""
    with path.open("rb") as lines:
        lines.seek(offset)
        return parse(path, lines.readline(), TaskSpec.from_json)


def write_index(tasks: Path, index: Path) -> None:
    """Writes the offset of each task's line, so that one can be read without the others."""
    found, position = [], 0
    with tasks.open("rb") as lines:
        for line in lines:
            found.append(_OFFSET.pack(position))
            position += len(line)
    files.write_bytes(index, b"".join(found))


def read_indexed(tasks: Path, index: Path, number: int) -> TaskSpec:
    with index.open("rb") as offsets:
        offsets.seek(number * _OFFSET.size)
        [start] = _OFFSET.unpack(offsets.read(_OFFSET.size))
    return read_spec(tasks, start)


def read_specs(path: Path) -> Iterator[TaskSpec]:
    """Yields the tasks of a file, if it exists, and reads each when it is needed."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            yield parse(path, line, TaskSpec.from_json)


def read_shared_plan(run: Path, *, retry: bool = False) -> RunPlan:
    """Reads the plan of a run in a shared folder, with absolute paths and the storage account."""
    plan = read_plan(run, retry=retry)
    account = of_target(run).account_url
    return replace(
        plan,
        directory=str(run / "code"),
        after=tuple(str(run.parent / name) for name in plan.after),
        staged=tuple(replace(entry, account=account) for entry in plan.staged),
    )
