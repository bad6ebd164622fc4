"""Who gets in, by which ways, and who may submit jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from fairway_core.documents import FieldError, Model, rule
from fairway_core.environment.people import People
from fairway_core.environment.values import WIDEST_RANGE, Range, SizeText, x64
from fairway_core.fields import Reach
from fairway_core.resource_ids import ObjectId, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from ipaddress import IPv4Network


_GATEWAY_SIZE = "Standard_D2s_v6"


def _own_range(network: IPv4Network) -> IPv4Network:
    if network.prefixlen < WIDEST_RANGE:
        raise FieldError(
            f"`{network}` would admit a large part of the internet",
            "name the ranges that you work from, for example 203.0.113.0/24",
        )
    return network


class GatewayVm(Model, defer_build=True):
    """A small VM in the network, through which people's machines reach storage and Batch."""

    size: Annotated[SizeText, x64(_GATEWAY_SIZE)] = _GATEWAY_SIZE
    """The VM size. The VM runs no jobs, but all copied data goes through it. Describe a size that
    Fairway does not list by one that it does."""


class Access(Model, defer_build=True):
    """Who may log in: public keys (or paths to them), and ranges that may connect by SSH.

    Without `ssh_keys`, your own public keys are read when the file is loaded.
    """

    ssh_keys: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Public SSH keys, or paths of files that hold them; by default your own in ~/.ssh."""
    allowed: tuple[Annotated[Range, AfterValidator(_own_range)], ...] = ()
    """Address ranges that may connect by SSH; the public ones may also use storage, Batch,
    vault and registry."""
    bastion: bool = False
    """Deploy Azure Bastion, so that SSH needs no allowed range."""
    admins: tuple[ObjectId, ...] = ()
    """Object ids of users and groups who may reach nodes through the bastion."""
    researchers: tuple[ObjectId, ...] | None = None
    """Object ids of users and groups who may submit to Batch, and read and write blobs; by default
    the first deployer. `[]` means nobody."""
    users: People = ()
    """A personal account for each of these people, in place of one shared account."""
    gateway: bool | GatewayVm = False
    """A small VM through which storage and Batch are reached over SSH, for environments without
    another VM, such as those with Batch pools only."""
    reach: Literal["direct"] | Reach | None = None
    """How people's machines reach nodes over SSH: by default through the environment's bastion if
    it has one, otherwise `direct`, for example over a VPN."""

    @rule
    def _admins_have_a_way_in(self) -> None:
        if self.admins and not self.bastion:
            raise FieldError(
                "`admins:` connect through the bastion, but there is none",
                "set `bastion: true`, or leave `admins:` out: keys are under `ssh_keys:`",
                ("admins",),
            )

    @rule
    def _reach_has_an_effect(self) -> None:
        if self.reach == "direct" and not self.bastion:
            raise FieldError(
                "nodes are reached directly anyway: there is no bastion", "leave it out", ("reach",)
            )

    @property
    def gateway_size(self) -> str | None:
        """The VM size of the gateway; None where there is none."""
        if isinstance(self.gateway, GatewayVm):
            return self.gateway.size
        return GatewayVm().size if self.gateway else None

    @field_validator("reach")
    @classmethod
    def _bastion_is_there(cls, reach: object) -> object:
        if isinstance(reach, Reach) and reach.bastion is not None:
            parts_of("Bastion", reach.bastion)  # in a file it is never Terraform's to fill in
        return reach


@dataclass(frozen=True)
class DataRole:
    """A built-in role on a container, or on the Batch account where `container` is None; `key`
    tells it from the others."""

    key: str
    role: str
    reason: str
    container: str | None = None


@dataclass(frozen=True)
class Researcher:
    """Who gets them, by object id: None is the first deployer. `why` ends each reason."""

    key: str
    why: str
    object_id: str | None = None


DEPLOYER = Researcher("deployer", "deployed this first")


def data_roles(containers: Iterable[str], *, pools: bool) -> Iterator[DataRole]:
    """All that submitting takes: Owner and Contributor allow none of it. Source: Azure
    documentation, built-in roles for Storage and Batch."""
    for name in containers:
        role, reason = "Storage Blob Data Contributor", f"Reads and writes the container {name}"
        yield DataRole(f"container-{name}", role, reason, name)
    if pools:
        yield DataRole("batch", "Azure Batch Data Contributor", "Submits jobs")


def researchers_of(named: Sequence[str] | None) -> list[Researcher]:
    """Those of `access.researchers`."""
    if named is None:
        return [DEPLOYER]
    return [Researcher(each, "named under access.researchers", each) for each in named]
