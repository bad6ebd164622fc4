"""The target: what a cluster offers to the runner, and all that the runner knows about it.

The compute stack's Terraform output `targets` is a list of these, and `fairway.yaml` may contain
some. `local`, this machine, always exists.
"""

import re
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model, matching, rule
from fairway_core.fields import Reach, Span, is_image
from fairway_core.project_folder import from_home

HEAD_IMAGE = "python:3.12.14-slim-trixie"
"""The image of the head pod and of the pods of nodes. Source: docker-library/official-images."""

POOL_TAINT = "fairway.dev/pool"
"""The key of the taint that keeps other pods off a pool's nodes; its value is the pool's name."""

Engine = Literal["local", "ssh", "slurm", "batch", "kubernetes"]


def _printable(value: str) -> str:
    if not value.isprintable():
        raise FieldError("this holds a control character", "write it as plain text")
    return value


def _word(value: str) -> str:
    """Returns text for command lines. Raises FieldError if it has a space or begins with `-`."""
    _printable(value)
    if value.startswith("-"):
        raise FieldError("this begins with `-`, as options of programs do", "remove it")
    # Terraform writes an expression while an address is unknown.
    if not value.startswith("${") and any(character.isspace() for character in value):
        raise FieldError("this holds a space", "remove it")
    return value


def _folder(value: str) -> str:
    if value.startswith("-"):
        raise FieldError("this begins with `-`, as options of programs do", "write it as ./-…")
    return _printable(value)


def _region(value: str) -> str:
    if value and not (value.isascii() and value.isalnum() and value.islower()):
        near = re.sub(r"[^a-z0-9]", "", value.lower())
        hint = f"did you mean `{near}`?" if near else "for example westeurope"
        raise FieldError("this is not an Azure region's name", hint)
    return value


def _image(value: str) -> str:
    """Refuses names that no node could pull: pods would wait for ever."""
    if not value.startswith("${") and not is_image(value):
        raise FieldError(
            f"`{value[:60]}` is not a container image",
            "for example myregistry.azurecr.io/train:1; lower-case letters except in the tag",
        )
    return value


def _exact(value: str) -> str:
    """Returns the name if it has a version: privileged images must change only with their name.

    >>> _exact("localhost:5000/python:3.12.14-slim")
    'localhost:5000/python:3.12.14-slim'
    """
    name, _, digest = value.partition("@")
    if not digest and name.rpartition("/")[2].partition(":")[2] in ("", "latest"):
        raise FieldError(
            f"`{value}` is whatever its registry calls the latest",
            f"name a version, for example {HEAD_IMAGE}, or a digest",
        )
    return value


def _amount(value: str) -> str:
    if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?([numkMGTPE]|[KMGTPE]i)?", value):
        raise FieldError(
            "this is not an amount of Kubernetes",
            "a number, and k, M, G or Ki, Mi, Gi behind it, or m for thousandths: 64Gi, 500m",
        )
    return value


def _scratch(value: str) -> str:
    if value.startswith("/"):
        if not re.fullmatch(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+", value):
            raise FieldError("this is not a folder of nodes", "for example /mnt/disks/scratch")
        return value
    return _amount(value) if value else value


Text = Annotated[str, AfterValidator(_printable)]
Label = Annotated[
    str,
    matching(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
        "this is not a name of Kubernetes",
        "lower-case letters, digits, hyphens and dots, with a letter or digit at both ends",
    ),
]
Word = Annotated[str, AfterValidator(_word)]
Folder = Annotated[str, AfterValidator(_folder)]
Amount = Annotated[str, AfterValidator(_amount)]
Scratch = Annotated[str, AfterValidator(_scratch)]
Image = Annotated[str, AfterValidator(_word), AfterValidator(_image)]
ExactImage = Annotated[Image, AfterValidator(_exact)]
Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        "this is not a target's name",
        "up to 63 letters, digits, dots, hyphens and underscores; no hyphen at the front",
    ),
]
Region = Annotated[str, AfterValidator(_region)]


class NodeRange(Model):
    """The number of nodes that a target may have; with `min` equal to `max` it is fixed."""

    min: int = Field(ge=0)
    """The number of nodes that stay when nothing runs."""
    max: int = Field(ge=1)
    """The largest number of nodes."""

    @classmethod
    def of(cls, nodes: int | Self) -> Self:
        """Returns the range for `nodes:` of an environment file: a number is a fixed range."""
        return cls(min=nodes, max=nodes) if isinstance(nodes, int) else nodes

    @property
    def scales(self) -> bool:
        """True if nodes are started and deleted on demand."""
        return self.min < self.max

    @rule
    def _in_order(self) -> None:
        if self.min > self.max:
            raise FieldError(
                f"min {self.min} is above max {self.max}",
                f"for example {{min: 0, max: {self.max}}}",
                ("min",),
            )


class StorageAccount(Model):
    """The account whose containers a job reads and writes.

    Without `account_url` it is that of the variable AZURE_STORAGE_CONNECTION_STRING.
    """

    account_url: Text = ""
    containers: tuple[Text, ...] = ()


class SshAccess(Model):
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


class SlurmAccess(Model):
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


class BatchAccess(Model):
    """Access of the `batch` engine to the pool; `identity` is the nodes' own, by resource id.

    Without `mpi` the pool's nodes do not talk to each other: each job takes one, or with
    `task_slots` one of that many parts. Without `endpoint` it is that of the variable
    AZURE_BATCH_ENDPOINT.
    """

    endpoint: Text = ""
    pool: Word
    identity: Text = ""
    mpi: bool = True
    task_slots: int | None = Field(default=None, ge=2, le=256)


class KubernetesAccess(Model):
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
    volumes: dict[Label, Label] = Field(min_length=1)
    selector: dict[Word, Text] = Field(default_factory=dict)
    tolerations: tuple[Word, ...] = ()
    resources: dict[Word, Amount] | None = None
    rdma: Word = ""
    scratch: Scratch = ""
    queue: Label | None = None
    priorities: dict[Literal["low", "normal", "high"], Label] = Field(default_factory=dict)
    patience: Span | None = None
    cluster: Word | None = None
    service_account: Label = "fairway-task"
    head: Label = "fairway-head"
    head_image: ExactImage = HEAD_IMAGE
    head_tolerations: tuple[Word, ...] = ()


class Gateway(Model):
    """A host inside of the network that ssh leads to: storage and Batch are reached through it
    from machines to which they are closed.
    """

    host: Word
    user: Word


class Target(Model):
    """A place to run jobs; exactly the section of its engine is set, and none for `local`.

    `mounts` maps a file system's name to its path on every node. `reach` is the way to the host
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
    price: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    mounts: dict[Text, Folder] = Field(default_factory=dict)
    storage: StorageAccount | None = None
    vault_url: Text = ""
    reach: Reach | None = None
    gateway: Gateway | None = None
    users: dict[Word, Folder] | None = None
    slurm: SlurmAccess | None = None
    ssh: SshAccess | None = None
    batch: BatchAccess | None = None
    kubernetes: KubernetesAccess | None = None

    @rule
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

    @rule
    def _reach_leads_to_a_host(self) -> None:
        led_to = self.slurm or self.ssh or self.batch or self.gateway
        if self.reach is not None and not led_to:
            raise FieldError(
                f"`reach:` is for targets that ssh leads to, and not for engine `{self.engine}`",
                "leave it out",
                ("reach",),
            )

    @rule
    def _priorities_are_of_a_queue(self) -> None:
        if self.kubernetes and self.kubernetes.priorities and not self.kubernetes.queue:
            raise FieldError(
                "only Kueue keeps these, and the target has no `queue:`",
                "leave them out, or name a LocalQueue with `queue:`",
                ("kubernetes", "priorities"),
            )

    @rule
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
        return cls(name="local", engine="local", nodes=NodeRange(min=1, max=10_000))

    def record(self) -> dict[str, Any]:
        """Returns the target as plain data, as in the Terraform output and `targets.json`."""
        return self.model_dump(mode="json", exclude_none=True)
