"""Slurm's scheduler, with its login nodes, accounts and packages."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from fairway_core.cost.line_items import LineItem, disks, server, without_meter
from fairway_core.documents import Check, FieldError, Model, matching, require, rule
from fairway_core.environment.clusters.base import Manager
from fairway_core.environment.values import SizeText, x64
from fairway_core.fields import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment.clusters.base import Box, Surroundings
    from fairway_core.yaml_text import DataPath

# The quality of service that every Slurm cluster has.
_NORMAL = "normal"
_TAKEN = frozenset({"root", "all", "none"})
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
# Names of the scheduler's own resources.
_SCHEDULER = "slurm-scheduler"
_LOGIN = "slurm-login"
# The first version that reaches each node at the address from which it registered.
_OLDEST = "23.11"
# The default size of the scheduler and of login nodes.
_SIZE = "Standard_D4s_v6"


Idle = Annotated[
    Span,
    require(
        # Slurm checks every half minute, and Azure takes minutes to start or delete a node.
        lambda seconds: seconds >= 60 and not seconds % 1,
        "nodes stay idle for at least a minute",
        "for example `idle: 10m`",
    ),
]


def _names(items: dict[str, Any]) -> None:
    for name in items:
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise FieldError(
                f"`{name}` cannot be a name in Slurm's accounting",
                "1 to 30 lower-case letters, digits, hyphens and underscores, first a letter",
                (name,),
            )


def _repository(url: str) -> None:
    if "@" in url:
        raise FieldError(
            "the address holds a user or a password, which a file must not hold",
            "let the scheduler's and the nodes' addresses in, and remove it",
        )
    form = r"https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(?::([0-9]{1,5}))?(/[\w.~+-]+)*/?"
    found = re.fullmatch(form, url, re.ASCII)
    if found is None or not 0 < int(found[2] or 443) < 1 << 16:
        raise FieldError(
            f"`{url}` is not the address of a repository by https",
            "for example https://packages.example.org/slurm",
        )


def _slurm_version(version: str) -> None:
    found = re.fullmatch(r"([0-9]{2}\.[0-9]{2})\.[0-9]+(-[\w.~+-]+)?", version)
    if found is None:
        raise FieldError(
            f"`{version}` is not an exact version of Slurm", 'for example version: "25.05.4"'
        )
    if found[1] < _OLDEST:
        raise FieldError(
            f"Slurm {version} is too old: nodes come and go as here from {_OLDEST} on",
            "take a newer release",
        )


_APT_NAME = matching(
    r"[A-Za-z0-9][\w.+/-]*", "`{}` is no word of sources.list", "for example `stable`, `main`"
)


class Qos(Model, defer_build=True):
    """A quality of service, which a job asks for by `qos:`."""

    priority: int = Field(default=0, ge=0, le=10_000)
    """Priority of its jobs; only the proportion to the other values counts."""
    preempts: tuple[str, ...] = ()
    """Qualities of service whose running jobs return to the queue to make room for its jobs, for
    example `[normal]`."""
    max_nodes_per_user: int | None = Field(default=None, ge=1)
    """The most nodes that one user's jobs may hold at a time."""


class LoginNodes(Model, defer_build=True):
    """VMs on which people log in, edit, compile and submit, while the scheduler schedules.

    They run no jobs. With them, accounts without sudo get no shell on the scheduler.
    """

    size: Annotated[SizeText, x64(_SIZE)] = _SIZE
    """The VM size of each. Describe a size that Fairway does not list by one that it does."""
    count: int = Field(default=1, ge=1, le=9)
    """The number of login nodes; people are spread over them."""

    @property
    def sizes(self) -> list[str]:
        """The VM size of each node."""
        return [self.size] * self.count


class SlurmRepository(Model, defer_build=True):
    """An apt repository of yours with Slurm for Ubuntu 24.04, in packages that are built as SchedMD
    describes (`slurm-smd`, `slurm-smd-slurmctld` and so on).

    >>> own = SlurmRepository(url="https://apt.example.com", key="slurm.asc", version="25.05.4")
    """

    url: Annotated[str, Check(_repository)]
    """Its address, `https://…`, without a user or a password."""
    key: str = Field(min_length=1)
    """The file of its public key, from `gpg --export --armor`, relative to this file. Packages that
    were not signed with it are refused."""
    version: Annotated[str, Check(_slurm_version)]
    """The version to install, such as "25.05.4"; machines that are made later get the same one."""
    suite: Annotated[str, _APT_NAME] = "stable"
    """The suite, as in a line of sources.list."""
    component: Annotated[str, _APT_NAME] = "main"
    """The component, as there."""


def _known_source(packages: object) -> object:
    if isinstance(packages, str) and packages not in ("distribution", "microsoft"):
        if "://" in packages:
            raise FieldError(
                "a repository is used with its key and an exact version only",
                f"`packages: {{url: {packages}, key: FILE, version: 25.05.4}}`",
            )
        raise FieldError(
            f"`{packages}` is no source of Slurm's packages",
            "`distribution`, `microsoft`, or `{url: https://…, key: FILE, version: 25.05.4}`",
        )
    return packages


class Slurm(Manager, defer_build=True):
    """The scheduler of the clusters with `engine: slurm`: one VM for all of them.

    Its jobs, and with `accounting` the history of all jobs, are on a disk that outlives the VM.
    """

    private_links: ClassVar = ("vault",)

    scheduler_size: Annotated[SizeText, x64(_SIZE)] = _SIZE
    """The VM size of the scheduler, which runs no jobs. Describe a size that Fairway does not list
    by one that it does."""
    login: LoginNodes | None = None
    """VMs to log in to; without this section people log in to the scheduler."""
    accounting: bool = True
    """Keep the history of all jobs in a database, which `sacct` reads."""
    idle: Idle = 600
    """The time for which an idle node is kept before it is deleted."""
    accounts: Annotated[dict[str, Annotated[int, Field(ge=1)]], Check(_names)] = Field(
        default_factory=dict
    )
    """Accounts that jobs are charged to by `account:`, each with its fair share of the cluster.
    Jobs that name none are charged to the first.
    """
    qos: Annotated[dict[str, Qos], Check(_names)] = Field(default_factory=dict)
    """Qualities of service by name; jobs that name none get `normal`."""
    disk_gib: int = Field(default=64, ge=8, le=4096)
    """The size of the disk with jobs and history; it can grow later."""
    packages: Annotated[
        Literal["distribution", "microsoft"] | SlurmRepository, BeforeValidator(_known_source)
    ] = "distribution"
    """Source of Slurm for scheduler, login nodes and nodes. `distribution`: Ubuntu's 23.11, which
    gets no more fixes. `microsoft`: 25.11 as CycleCloud has it, from packages.microsoft.com, whose
    key is fetched from there. Or an apt repository of yours. Choose before the cluster holds jobs
    and history: 25.11 cannot read what 23.11 has left. The two others have not run on Azure yet,
    `srun --mpi=pmix` least of all.
    """

    @rule
    def _history_is_kept(self) -> None:
        for name in ("accounts", "qos"):
            if getattr(self, name) and not self.accounting:
                message = "Slurm keeps accounts and qualities of service in its database"
                raise FieldError(message, "leave `accounting: false` out", (name,))

    @rule
    def _preempts_what_there_is(self) -> None:
        for name, each in self.qos.items():
            for index, other in enumerate(each.preempts):
                if other == name or other not in {_NORMAL, *self.qos}:
                    raise FieldError(
                        f"`{name}` cannot preempt `{other}`",
                        f"name others of `qos:`, or `{_NORMAL}`",
                        ("qos", name, "preempts", index),
                    )
        try:
            TopologicalSorter({name: each.preempts for name, each in self.qos.items()}).prepare()
        except CycleError as error:
            loop = " preempts ".join(f"`{each}`" for each in reversed(error.args[1]))
            message = f"{loop}, and Slurm takes no loop"
            raise FieldError(message, "leave one of them out", ("qos",)) from None

    @property
    def services(self) -> tuple[Box, ...]:
        """The vault of the munge key."""
        return (("slurm-vault", "slurm_key_vault", "key vault", "vault"),)

    @property
    def vms(self) -> dict[str, str]:
        """The scheduler and the login nodes."""
        logins = enumerate(self.login.sizes if self.login else ())
        return {_SCHEDULER: self.scheduler_size} | {f"{_LOGIN}-{n}": size for n, size in logins}

    @property
    def sizes(self) -> dict[DataPath, str]:
        """The sizes of the scheduler and of login nodes."""
        logins: dict[DataPath, str] = {("login", "size"): self.login.size} if self.login else {}
        return {("scheduler_size",): self.scheduler_size, **logins}

    def check(self, around: Surroundings) -> None:
        """Raises FieldError if a cluster has a name of the scheduler's, or if Slurm cannot be
        installed."""
        for name in around.clusters:
            if name == _SCHEDULER or (self.login and name.startswith(_LOGIN)):
                what = "the scheduler's" if name == _SCHEDULER else "a login node's"
                message = f"`{name}` is {what} own name"
                raise FieldError(message, "choose another name", ("clusters", name))
        if around.network.is_closed:
            raise FieldError(
                "scheduler and nodes install Slurm from the internet, which `egress: none` closes",
                "use another `egress:` or another engine",
                ("network", "egress"),
            )

    def cost(self, endpoint: list[LineItem]) -> Iterator[tuple[str, list[LineItem]]]:
        """Yields the scheduler with its disk and vault, and the login nodes."""
        state = [*disks("premium", self.disk_gib), *without_meter("azurerm_key_vault", "vault")]
        yield "Slurm scheduler", [*server(self.scheduler_size), *state, *endpoint]
        for number, size in enumerate(self.login.sizes if self.login else ()):
            yield f"Slurm login node {number}", server(size)

    def egress(self, around: Surroundings) -> Iterator[str]:
        """Yields the kinds of rows for its system and its packages."""
        yield from ("ubuntu", "slurm")
        if self.packages == "microsoft":
            yield "slurm-microsoft"
