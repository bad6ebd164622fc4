"""The target: what a cluster offers to the runner, and all that the runner knows about it.

The compute stack's Terraform output `targets` is a list of these, and `fairway.yaml` may contain
some. `local`, this machine, always exists.
"""

import zlib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from fairway_agent.quick import dataclass
from fairway_core.light_fields import (
    DEAREST,
    Amount,
    Check,
    ExactImage,
    FieldError,
    Folder,
    Image,
    JumpHost,
    Label,
    Name,
    Region,
    Scratch,
    Text,
    Word,
    seconds_of,
)
from fairway_core.light_fields import HEAD_IMAGE as HEAD_IMAGE
from fairway_core.light_models import LightModel
from fairway_core.project_folder import from_home

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import core_schema

POOL_TAINT = "fairway.dev/pool"
"""The key of the taint that keeps other pods off a pool's nodes; its value is the pool's name."""
SYSTEM_TAINT = "CriticalAddonsOnly"
"""The key of the taint of system nodes in an environment, which AKS' own pods tolerate, including
those of its extension Flux and of Container insights.

Sources: Azure documentation, AKS: system node pools; Azure/AKS, issue 4780; mspnp/aks-baseline,
pull request 236; the pods of an AKS cluster, ama-logs-rs among them, in microsoft/Docker-Provider
b7805584, source/plugins/go/input/lib/testdata/pods1.json."""

Engine = Literal["local", "ssh", "slurm", "batch", "kubernetes"]


class _Duration(Check):
    """Check of seconds, which documents have as a `Span`."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: "GetCoreSchemaHandler"
    ) -> "core_schema.CoreSchema":
        from fairway_core.fields import Span

        return handler(Span)


def _bastion(text: str) -> None:
    # In the output of a stack Terraform fills in the id later.
    if not text.startswith("${"):
        from fairway_core.resource_ids import parts_of

        parts_of("Bastion", text)


Seconds = Annotated[float, _Duration(seconds_of)]
Bastion = Annotated[str, Check(_bastion)]


@dataclass(frozen=True, kw_only=True)
class NodeRange(LightModel):
    """The number of nodes that a target may have; with `min` equal to `max` it is fixed.

    >>> nodes = NodeRange(min=0, max=8)
    """

    min: int = field(metadata={"ge": 0})
    """The number of nodes that stay when nothing runs."""
    max: int = field(metadata={"ge": 1})
    """The largest number of nodes."""

    @classmethod
    def of(cls, nodes: int | Self) -> Self:
        """Returns the range for `nodes:` of an environment file: a number is a fixed range."""
        return cls(min=nodes, max=nodes) if isinstance(nodes, int) else nodes

    @property
    def scales(self) -> bool:
        """True if nodes are started and deleted on demand."""
        return self.min < self.max

    def _check(self) -> None:
        """Raises FieldError unless there are fewest and most in this order."""
        if self.min > self.max:
            raise FieldError(
                f"min {self.min} is above max {self.max}",
                f"for example {{min: 0, max: {self.max}}}",
                ("min",),
            )


@dataclass(frozen=True, kw_only=True)
class StorageAccount(LightModel):
    """The account whose containers a job reads and writes.

    Without `account_url` it is that of the variable AZURE_STORAGE_CONNECTION_STRING.

    >>> account = StorageAccount(containers=["datasets", "outputs"])
    """

    account_url: Text = ""
    containers: tuple[Text, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SshAccess(LightModel):
    """Access of the `ssh` engine to the main host; `shared` is a folder that all nodes see.

    `host` is empty while the cluster has no node, for example when Azure lacks capacity.
    `others` are nodes that serve as well where it takes no connection: Azure may have replaced it.
    `machines` is the id of the VM or scale set, where it can be stopped without losing a disk.
    `queue` is a folder of the machines' own in which the runs of several people queue; one account
    alone has its queue in `shared`.
    """

    host: Word
    user: Word
    shared: Folder
    others: tuple[Word, ...] = ()
    machines: Word = ""
    queue: Folder | None = None

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """All hosts that commands may connect to."""
        return self.host, *self.others


@dataclass(frozen=True, kw_only=True)
class SlurmAccess(LightModel):
    """Access of the `slurm` engine to the scheduler, or a login node: of several `hosts` the first.

    `shared` is a folder that all nodes see.
    """

    host: Word
    user: Word
    partition: Word
    shared: Folder
    hosts: tuple[Word, ...] | None = None

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """All hosts that commands may connect to."""
        return self.host, *(self.hosts or ())

    def host_of(self, name: str) -> str:
        """Returns a user's login node: always the same one, with users spread evenly over all."""
        if not self.hosts:
            return self.host
        return self.hosts[zlib.crc32(name.encode()) % len(self.hosts)]


@dataclass(frozen=True, kw_only=True)
class BatchAccess(LightModel):
    """Access of the `batch` engine to the pool; `identity` is the nodes' own, by resource id.

    Without `mpi` the pool's nodes do not talk to each other: each job takes one, or with
    `task_slots` one of that many parts. Without `endpoint` it is that of the variable
    AZURE_BATCH_ENDPOINT.
    """

    endpoint: Text = ""
    pool: Word
    identity: Text = ""
    mpi: bool = True
    task_slots: int | None = field(default=None, metadata={"ge": 2, "le": 256})


@dataclass(frozen=True, kw_only=True)
class KubernetesAccess(LightModel):
    """Access of the `kubernetes` engine to a cluster by kubectl, and settings of its pods.

    `kubeconfig` is the file that has the `context`, instead of kubectl's usual ones.
    `volumes` maps the name of a mount to the claim that has it, and `shared` is a folder below one
    of these. `image` is that of jobs that name no container. `selector` are labels of the nodes
    that pods may have, `tolerations` are keys of their taints beside those of GPUs and Spot.
    `resources` is what a whole node offers to a pod, where that does not follow from `vm_size`;
    `rdma` is the name under which its InfiniBand adapters are offered, if at all. `scratch` is a
    folder of the nodes for tasks' scratch, or the most that a whole node's task may have on their
    system disk, "" for no limit. `queue` is a
    LocalQueue of Kueue's, if the cluster has that, and `priorities` maps the `priority` of jobs to
    its WorkloadPriorityClasses. `patience` is how long the first pod of a task on several nodes
    waits for the others; by default 15 minutes, and as long as a node may take where `nodes` is a
    range. `cluster` is the id of a cluster of AKS, by which kubectl gets to know its `context`.
    `head_tolerations` are keys of taints of the nodes that the head's pods, and no tasks, may have.
    """

    kubeconfig: Folder = ""
    context: Text = ""
    namespace: Label = "default"
    image: Image
    shared: Folder
    volumes: dict[Label, Label] = field(metadata={"min_length": 1})
    selector: dict[Word, Text] = field(default_factory=dict)
    tolerations: tuple[Word, ...] = ()
    resources: dict[Word, Amount] | None = None
    rdma: Word = ""
    scratch: Scratch = ""
    queue: Label | None = None
    priorities: dict[Literal["low", "normal", "high"], Label] = field(default_factory=dict)
    patience: Seconds | None = None
    cluster: Word | None = None
    service_account: Label = "fairway-task"
    head: Label = "fairway-head"
    head_image: ExactImage = HEAD_IMAGE
    head_tolerations: tuple[Word, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gateway(LightModel):
    """A host inside of the network that ssh leads to: storage and Batch are reached through it
    from machines to which they are closed.
    """

    host: Word
    user: Word


@dataclass(frozen=True, kw_only=True)
class SshRoute(LightModel):
    """The route to a host with a private address: an Azure Bastion, or jump hosts."""

    bastion: Bastion | None = None
    """The id of an Azure Bastion that allows native clients and connections by IP address."""
    jump: tuple[JumpHost, ...] | None = field(default=None, metadata={"min_length": 1})
    """Jump hosts in the order to pass them, each `user@host` or `user@host:port`."""

    def _check(self) -> None:
        """Raises FieldError unless it is one of the two."""
        if self.bastion is None and self.jump is None:
            hint = "name `bastion:` or `jump:`, or leave it out"
            raise FieldError("this is no route", hint)
        if self.bastion is not None and self.jump is not None:
            raise FieldError("`bastion:` and `jump:` cannot be combined", "keep one of the two")


@dataclass(frozen=True, kw_only=True)
class Target(LightModel):
    """A place to run jobs; exactly the section of its engine is set, and none for `local`.

    `mounts` maps a file system's name to its path on every node. `ssh_route` is the way to the host
    of `ssh:` or `slurm:`, and to the `gateway`; without it ssh connects to the host as it is.
    `users` are people with accounts of their own, each with the folder that is `shared` for them.
    `region` is Azure's, which prices depend on; `price` is what one node costs an hour, where it is
    not the list price of its size there.

    >>> Target.local().engine
    'local'
    """

    version: Literal[1] = 1
    name: Name
    environment: Text = ""
    engine: Engine
    vm_size: Text = ""
    region: Region = ""
    nodes: NodeRange
    spot: bool = False
    price: float | None = field(
        default=None, metadata={"gt": 0, "le": DEAREST, "allow_inf_nan": False}
    )
    mounts: dict[Text, Folder] = field(default_factory=dict)
    storage: StorageAccount | None = None
    vault_url: Text = ""
    ssh_route: SshRoute | None = None
    gateway: Gateway | None = None
    users: dict[Word, Folder] | None = None
    slurm: SlurmAccess | None = None
    ssh: SshAccess | None = None
    batch: BatchAccess | None = None
    kubernetes: KubernetesAccess | None = None

    def _check(self) -> None:
        """Raises FieldError if the sections do not fit the engine or each other."""
        self._section_of_its_engine()
        self._reach_leads_to_a_host()
        self._priorities_are_of_a_queue()
        self._volumes_are_mounts()

    def _section_of_its_engine(self) -> None:
        for engine in ("slurm", "ssh", "batch", "kubernetes"):
            section = getattr(self, engine)
            if section is not None and engine != self.engine:
                raise FieldError(
                    f"a target with engine `{self.engine}` has no `{engine}:` section",
                    f"take it out, or write `engine: {engine}`",
                    path=(engine,),
                )
            if section is None and engine == self.engine:
                raise FieldError(
                    f"a target with engine `{engine}` needs its `{engine}:` section",
                    f"add `{engine}:`",
                )

    def _reach_leads_to_a_host(self) -> None:
        led_to = self.slurm or self.ssh or self.batch or self.gateway
        if self.ssh_route is not None and not led_to:
            raise FieldError(
                f"`ssh_route:` is for targets that ssh leads to, not for engine `{self.engine}`",
                "leave it out",
                ("ssh_route",),
            )

    def _priorities_are_of_a_queue(self) -> None:
        if self.kubernetes and self.kubernetes.priorities and not self.kubernetes.queue:
            raise FieldError(
                "only Kueue keeps these, and the target has no `queue:`",
                "leave them out, or name a LocalQueue with `queue:`",
                ("kubernetes", "priorities"),
            )

    def _volumes_are_mounts(self) -> None:
        if self.kubernetes is None:
            return
        for name in self.kubernetes.volumes:
            if name not in self.mounts:
                raise FieldError(
                    f"there is no mount `{name}`",
                    f"set where pods have it: `mounts: {{{name}: /{name}}}`",
                    ("kubernetes", "volumes", name),
                )
        paths = [self.mounts[name].rstrip("/") for name in self.kubernetes.volumes]
        shared = self.kubernetes.shared
        if not any(shared == path or shared.startswith(f"{path}/") for path in paths):
            raise FieldError(
                "this is not below any of the `volumes`",
                f"use a folder of one of them, for example {paths[0]}/fairway",
                ("kubernetes", "shared"),
            )

    @property
    def access(self) -> SshAccess | SlurmAccess | None:
        """Access to the target's host, or None for an engine without one."""
        return self.ssh or self.slurm

    def is_same_cluster(self, other: Self) -> bool:
        """Returns True if another target is the same cluster, possibly at another address: with the
        same environment, engine and shared folder, or for Batch the same account and pool."""
        if (self.environment, self.engine) != (other.environment, other.engine):
            return False
        if self.access is None or other.access is None:
            return self.batch is not None and self.batch == other.batch
        return bool(other.access.host) and other.access.shared == self.access.shared

    @property
    def machines(self) -> str:
        """The id of the VM or scale set that can be stopped and started, or ""."""
        return self.ssh.machines if self.ssh else ""

    @property
    def user(self) -> str:
        """The account for its hosts, or "" without hosts."""
        reached = self.access or self.gateway
        return reached.user if reached else ""

    def as_user(self, name: str) -> Self:
        """Returns the target with a person's own account, or unchanged if they have none."""
        if name not in (self.users or {}):
            return self
        shared = (self.users or {})[name]
        changes: dict[str, Any] = {}
        if self.access is not None:
            mine = {"user": name, "shared": shared}
            if self.slurm is not None:
                mine["host"] = self.slurm.host_of(name)
            changes[self.engine] = self.access.model_copy(update=mine)
        if self.gateway is not None:
            changes["gateway"] = self.gateway.model_copy(update={"user": name})
        return self.model_copy(update=changes)

    def written_in(self, folder: Path) -> Self:
        """Returns the target with local relative paths resolved against the folder of its file."""
        if self.kubernetes is None or not self.kubernetes.kubeconfig:
            return self
        file = str(folder / from_home(self.kubernetes.kubeconfig))
        found = self.kubernetes.model_copy(update={"kubeconfig": file})
        return self.model_copy(update={"kubernetes": found})

    @classmethod
    def local(cls) -> Self:
        """Returns the target of this machine, which always exists and has any number of nodes."""
        return cls.from_json(
            {"name": "local", "engine": "local", "nodes": {"min": 1, "max": 10_000}}
        )
