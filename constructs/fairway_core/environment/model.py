"""What an environment file holds, validated: fields first, then what they say of each other."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from fairway_core.catalog import default_image, image, limit, reserved_ranges, vm_size
from fairway_core.documents import FieldError, Model
from fairway_core.environment.addresses import LONGEST_PREFIX, subnet_plan
from fairway_core.environment.batch import Batch, BatchCluster, check_batch
from fairway_core.environment.checks import Checks
from fairway_core.environment.defaults import Defaults
from fairway_core.environment.filesystems import NfsServer
from fairway_core.environment.monitoring import Budget, Monitoring, budget_contacts
from fairway_core.environment.services import Registry, Vault
from fairway_core.environment.state import LocalState, State
from fairway_core.environment.storage import Storage
from fairway_core.environment.values import (
    EnvironmentName,
    Location,
    Range,
    as_field_error,
    named,
    offered_size,
)
from fairway_core.findings import UserError
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from fairway_core.catalog import Image

# Wider than this is no range that someone owns, but a part of the internet.
_WIDEST_ACCESS = 8


def _own_range(network: IPv4Network) -> IPv4Network:
    if network.prefixlen < _WIDEST_ACCESS:
        raise FieldError(
            f"`{network}` would let a large part of the internet in",
            "name the ranges that you work from, for example 203.0.113.0/24",
        )
    return network


# The models below are parts of Environment, which is built with all of them at once.


class Access(Model, defer_build=True):
    """Who may log in: public keys (or paths to them), and ranges from which SSH is let in.

    Without `ssh_keys` the user's own are taken when the file is loaded.
    """

    ssh_keys: tuple[str, ...] | None = Field(default=None, min_length=1)
    allowed: tuple[Annotated[Range, AfterValidator(_own_range)], ...] = ()


class Network(Model, defer_build=True):
    """The virtual network: its address space, and how nodes reach the internet and services.

    With `private_endpoints` storage, vault, registry and Batch have an address inside it and
    none outside. Each costs about as much a month as five minutes of one 8-GPU node, and a
    GB read through it a cent: little beside the nodes, and nothing else closes the services.
    """

    address_space: Range = IPv4Network("10.40.0.0/16")
    egress: Literal["nat"] = "nat"
    private_endpoints: bool = True

    @field_validator("address_space")
    @classmethod
    def _can_be_cut(cls, space: IPv4Network) -> IPv4Network:
        if not _WIDEST_ACCESS <= space.prefixlen <= LONGEST_PREFIX:
            raise FieldError(
                f"`{space}` cannot be cut into subnets",
                f"take a length of /{_WIDEST_ACCESS} to /{LONGEST_PREFIX}, for example /16",
            )
        for reserved in reserved_ranges():
            if space.overlaps(reserved):
                raise FieldError(
                    f"`{space}` overlaps {reserved}, which InfiniBand uses inside each VM",
                    "take another range, for example 10.40.0.0/16",
                )
        return space


class Cluster(Model, defer_build=True):
    """Nodes of one size that run jobs together; with engine `ssh` a plain scale set."""

    engine: Literal["ssh"]
    size: str
    nodes: int = Field(ge=1, le=limit("placement_group_vms"))
    image: str | None = None
    mounts: tuple[str, ...] = ()

    @field_validator("size")
    @classmethod
    def _can_be_had(cls, name: str) -> str:
        return offered_size(name).name

    @model_validator(mode="after")
    def _image_fits(self) -> Self:
        try:
            chosen = self.chosen_image
        except UserError as error:
            raise as_field_error(error, ("image",)) from None
        size = vm_size(self.size)
        if not chosen.fits(size):
            raise FieldError(
                f"image `{self.image}` does not fit {self.size}",
                f"take `{default_image(size).alias}`, or leave `image:` out",
                path=("image",),
            )
        return self

    @model_validator(mode="after")
    def _nodes_share_a_folder(self) -> Self:
        if self.nodes > 1 and not self.mounts:
            raise FieldError(
                "nodes that run jobs together need a folder that all of them see",
                "add `mounts: [NAME]` with a name under `filesystems:`, or `nodes: 1`",
            )
        return self

    @property
    def chosen_image(self) -> Image:
        """The image of every node: the one named, or the default of the size."""
        return image(self.image) if self.image else default_image(vm_size(self.size))

    @property
    def node_range(self) -> NodeRange:
        """The least and the largest number of nodes."""
        return NodeRange(min=self.nodes, max=self.nodes)

    @property
    def nodes_of_a_job(self) -> int:
        """The most nodes that one job can take."""
        return self.nodes


AnyCluster = Annotated[Cluster | BatchCluster, Field(discriminator="engine")]


class Environment(Model):
    """An environment file; only `name`, `location` and one cluster are required."""

    name: EnvironmentName
    location: Location
    zone: Literal[1, 2, 3] = 1
    tags: dict[str, str] = Field(default_factory=dict)
    protect: bool = True
    checks: Checks = Field(default_factory=Checks)
    defaults: Defaults = Field(default_factory=Defaults)
    state: State = LocalState()
    access: Access = Field(default_factory=Access)
    network: Network = Field(default_factory=Network)
    storage: Storage = Field(default_factory=Storage)
    registry: Registry | None = None
    vault: Vault | None = None
    monitoring: Monitoring | None = None
    budget: Budget | None = None
    filesystems: dict[str, NfsServer] = Field(default_factory=dict)
    batch: Batch | None = None
    clusters: dict[str, AnyCluster] = Field(min_length=1)

    @field_validator("filesystems", "clusters")
    @classmethod
    def _keys_are_names(
        cls, items: dict[str, NfsServer] | dict[str, AnyCluster]
    ) -> dict[str, NfsServer] | dict[str, AnyCluster]:
        named(items)
        return items

    @model_validator(mode="after")
    def _mounts_exist(self) -> Self:
        from fairway_core.spelling import did_you_mean

        for name, cluster in self.clusters.items():
            for index, mount in enumerate(cluster.mounts):
                place = ("clusters", name, "mounts", index)
                if mount not in self.filesystems:
                    mend = did_you_mean(mount, self.filesystems) or "describe it there"
                    raise FieldError(f"no `{mount}` under `filesystems:`", mend, place)
                if mount in cluster.mounts[:index]:
                    raise FieldError(f"`{mount}` is mounted twice", "name it once", place)
        return self

    @model_validator(mode="after")
    def _paths_are_apart(self) -> Self:
        seen: dict[str, str] = {}
        for name, filesystem in self.filesystems.items():
            for path, other in seen.items():
                if f"{filesystem.path}/".startswith(f"{path}/") or path.startswith(
                    f"{filesystem.path}/"
                ):
                    raise FieldError(
                        f"`{filesystem.path}` and `{path}` of `{other}` lie in each other",
                        "give each file system a path of its own",
                        ("filesystems", name, "path"),
                    )
            seen[filesystem.path] = name
        return self

    @model_validator(mode="after")
    def _somebody_is_told_of_the_budget(self) -> Self:
        if self.budget is not None:
            budget_contacts(self.budget, self.monitoring)
        return self

    @model_validator(mode="after")
    def _registry_can_be_reached(self) -> Self:
        if self.registry is not None:
            self.registry.check_network(private_endpoints=self.network.private_endpoints)
        return self

    @property
    def has_vault(self) -> bool:
        """Whether there is a vault: asked for, or for the key of the storage account."""
        return self.vault is not None or self.storage.customer_managed_key

    @model_validator(mode="after")
    def _pools_have_an_account(self) -> Self:
        check_batch(
            self.clusters,
            self.batch,
            private_endpoints=self.network.private_endpoints,
            allowed=bool(self.access.allowed),
        )
        return self

    @model_validator(mode="after")
    def _nodes_find_addresses(self) -> Self:
        subnet = subnet_plan(self.network.address_space)["compute"]
        free = subnet.num_addresses - limit("subnet_reserved_addresses")
        nodes = sum(cluster.node_range.max for cluster in self.clusters.values())
        if nodes > free:
            raise FieldError(
                f"{nodes} nodes do not fit the {free} addresses of {subnet}",
                "take a larger `address_space:`",
                ("network", "address_space"),
            )
        return self
