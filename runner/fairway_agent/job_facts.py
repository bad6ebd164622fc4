"""What is known of a run's job and of its target where tasks run, beside the plan: what `job.json`
and `target.json` in the run's folder say. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.fields import Fields, read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PRIORITIES = {"low": -500, "normal": 0, "high": 500}
"""The words for which of several waiting runs is first: −1000 to 1000, the highest."""


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a job's tasks: its image, further options of its runtime, and the size of
    /dev/shm, as Docker writes it; "" where the job names none."""

    image: str
    options: tuple[str, ...] = ()
    shm_size: str = ""

    @classmethod
    def from_json(cls, facts: object) -> Container:
        """Unfit for what is not one."""
        fields = Fields(facts, "the container")
        shm_size = fields.text_or_none("shm_size") or ""
        return cls(fields.text("image"), fields.texts("options"), shm_size)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job's container, if it has one; its `priority`, see PRIORITIES; where the values of its
    secrets come from, by their variables; and whether its setup has root's rights."""

    container: Container | None = None
    priority: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict)
    setup_is_admin: bool = False

    @classmethod
    def from_json(cls, facts: object) -> JobFacts:
        """Unfit for what is not one."""
        fields = Fields(facts, "the job")
        container, setup = fields.facts.get("container"), fields.facts.get("setup")
        return cls(
            container=Container.from_json(container) if container else None,
            priority=_priority(fields),
            secrets=fields.variables("secrets"),
            setup_is_admin=isinstance(setup, dict) and Fields(setup, "`setup`").flag("admin"),
        )

    @property
    def priority_word(self) -> str:
        """The word for its priority; "" where there is none."""
        return next((word for word, known in PRIORITIES.items() if known == self.priority), "")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a cluster of Kubernetes has for a target's pods: images and service accounts, those of
    the head's own pods beside those of tasks; the claims by the mounts that they are; the labels of
    the nodes that they may have, and the taints of these that they bear; the queue of Kueue's in
    which they wait ("" for none), and its classes of priority by the words of jobs."""

    image: str
    head_image: str
    service_account: str
    head_account: str
    volumes: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    queue: str = ""
    priorities: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, facts: object) -> PodFacts:
        """Unfit for what is not one."""
        fields = Fields(facts, "`kubernetes` of the target")
        return cls(
            image=fields.text("image"),
            head_image=fields.text("head_image"),
            service_account=fields.text("service_account"),
            head_account=fields.text("head"),
            volumes=fields.variables("volumes"),
            selector=fields.variables("selector"),
            tolerations=fields.texts("tolerations"),
            queue=fields.text_or_none("queue") or "",
            priorities=fields.variables("priorities"),
        )


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target: its name and its engine's; where each node has its mounts; the addresses of its
    storage account and of its vault ("" for none); and how many nodes it has at most, 0 for any
    number. `queue` is the folder of the machines' own in which runs queue for hosts, `identity`
    that of a Batch pool, "" where there is none, and `pods` what there is for those of Kubernetes.
    """

    name: str = ""
    engine: str = ""
    mounts: Mapping[str, str] = field(default_factory=dict)
    account_url: str = ""
    vault_url: str = ""
    most_nodes: int = 0
    queue: str = ""
    identity: str = ""
    pods: PodFacts | None = None

    @classmethod
    def from_json(cls, facts: object) -> TargetFacts:
        """Unfit for what is not one."""
        fields = Fields(facts, "the target")
        sections = ("storage", "nodes", "ssh", "batch")
        storage, nodes, ssh, batch = (
            Fields(fields.facts.get(name) or {}, f"`{name}` of the target") for name in sections
        )
        pods = fields.facts.get("kubernetes")
        return cls(
            name=fields.text_or_none("name") or "",
            engine=fields.text_or_none("engine") or "",
            mounts=fields.variables("mounts"),
            account_url=(storage.text_or_none("account_url") or "").rstrip("/"),
            vault_url=fields.text_or_none("vault_url") or "",
            most_nodes=nodes.count_or_none("max") or 0,
            queue=ssh.text_or_none("queue") or "",
            identity=batch.text_or_none("identity") or "",
            pods=None if pods is None else PodFacts.from_json(pods),
        )


def of_job(run: Path) -> JobFacts:
    """Of the job of the run in a folder; Fault where the file is damaged."""
    return read(run / "job.json", JobFacts.from_json) or JobFacts()


def of_target(run: Path) -> TargetFacts:
    """The same of its target."""
    return read(run / "target.json", TargetFacts.from_json) or TargetFacts()


def _priority(fields: Fields) -> int:
    found = fields.facts.get("priority")
    if isinstance(found, str):
        if found not in PRIORITIES:
            raise fields.unfit("priority")
        return PRIORITIES[found]
    return fields.whole_or_none("priority") or 0
