"""Placement and names of resources: a scope says where all goes that is made in it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict, TypeVar

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.azurerm.data_resource_group import DataResourceGroup
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.cdk import Component, Output, surroundings
from fairway_core.findings import UserError
from fairway_core.naming import NAME_TAG, ROLE_TAG, Naming, unique_suffix
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_core.environment.keys import SshKey
    from fairway_core.environment.tags import TagArgument
    from fairway_core.environment.values import Location, Zone
    from fairway_core.resource_ids import ResourceGroupId


T = TypeVar("T")


class Common(TypedDict):
    """The arguments that most resources of Azure have."""

    resource_group_name: str
    location: str
    tags: Mapping[str, str] | None


@checked
@dataclass(frozen=True, kw_only=True)
class Placement:
    """A resource group, a region with one of its zones, and the tags of all that is in it.

    `resource_group` is the group's name, which may be a reference; `zone` is None where a
    region has no zones; `group_id` is the group's id, where `place_in_group` made or found it;
    `shared` says that others use the group too. Machines reach the internet by `proxy`, where
    there is one, and take the `ssh_keys` of their administrators. With `protect`
    neither Terraform nor Azure deletes what holds data. `naming` says how resources are called.

    >>> place = Placement(environment="h100", resource_group="h100-rg-data",
    ...                   location="southcentralus", zone=1)
    >>> place.name("virtual_network")
    'h100-vnet'
    """

    environment: str
    resource_group: str
    location: str
    zone: Zone | None = None
    tags: Mapping[str, str] | None = None
    group_id: str | None = None
    shared: bool = False
    proxy: MachineProxy | None = None
    ssh_keys: Sequence[str] = ()
    protect: bool = True
    naming: Naming = field(default_factory=Naming)

    def name(self, kind: str, *parts: str, suffix: str = "") -> str:
        """The name of a resource of that kind, by the one rule; see `fairway_core.naming`."""
        return self.naming.name(kind, self.environment, *parts, region=self.location, suffix=suffix)

    def deployment_name(self, name: str) -> str:
        """The name of a deployed template, which only has to be free in the resource group."""
        return self.name("resource_group_template_deployment", name) if self.shared else name

    @property
    def common(self) -> Common:
        """The resource group, the region and the tags, as arguments of a resource."""
        return {
            "resource_group_name": self.resource_group,
            "location": self.location,
            "tags": self.tags,
        }

    def labelled(self, role: str, name: str = "") -> dict[str, str]:
        """The tags, with what a resource is for and what its users call it.

        >>> Placement(environment="h100", resource_group="h100-rg", location="westeurope").labelled(
        ...     "nfs-server", "data")
        {'fairway-role': 'nfs-server', 'fairway-name': 'data'}
        """
        return {**(self.tags or {}), ROLE_TAG: role, **({NAME_TAG: name} if name else {})}

    def common_of(self, role: str, name: str = "") -> Common:
        """The arguments that most resources have, with tags that tell what this one is for."""
        return {**self.common, "tags": self.labelled(role, name)}

    @property
    def zone_text(self) -> str | None:
        """The zone as the provider takes it."""
        return None if self.zone is None else str(self.zone)

    @property
    def zones(self) -> list[str] | None:
        """The zone as a list, for resources that could span several."""
        return None if self.zone_text is None else [self.zone_text]


def place_of(scope: Construct) -> Placement:
    """The placement of the nearest scope around that has one, such as an `EnvironmentStack`.

    Raises UserError where there is none.
    """
    return surroundings(scope).placed[1]


def put(scope: Construct, place: Placement) -> None:
    """Gives what is made in `scope` from now on that placement."""
    vars(scope)["_place"] = place


def once(
    scope: Construct,
    id: str,  # noqa: A002
    make: Callable[[Construct, str], T],
) -> T:
    """Returns the one construct of this kind in an environment; `make` gets the scope of the
    environment, and the id.

    >>> once(self, "netapp", lambda scope, id: NetappAccount(scope, id, …))  # doctest: +SKIP
    """
    inside = surroundings(scope)
    owner, place = inside.placed
    return inside.addresses.shared((id, place.environment), lambda: make(owner, id))


@checked
def place_in_group(
    scope: Construct,
    id: str = "group",  # noqa: A002
    *,
    environment: str,
    role: str = "",
    location: Location,
    zone: Zone | None = None,
    tags: TagArgument | None = None,
    name: str | None = None,
    existing: ResourceGroupId | None = None,
    proxy: MachineProxy | None = None,
    ssh_keys: Sequence[SshKey] = (),
    protect: bool = True,
    naming: Naming | None = None,
) -> Placement:
    """Creates a resource group, in which all goes that is made in `scope` from now on.

    Its `name` is made from the environment and the role where it is not given; `tags` are joined by
    the environment's name and by what made it. With `existing`, the id of an existing group,
    none is made. Names follow `naming`, or that of what is around. An `EnvironmentStack` calls it
    for itself; with it a group of constructs may have a resource group of its own.

    >>> place_in_group(Construct(stack, "second"), environment="h200",
    ...                location="southcentralus")  # doctest: +SKIP
    """
    naming = naming or _naming_around(scope)
    tags = {**(tags or {}), "environment": environment, "managed-by": "fairway"}
    group: _ExistingGroup | ResourceGroup
    if existing:
        group = _ExistingGroup(scope, id, existing)
    else:
        name = name or naming.name("resource_group", environment, role, region=location)
        group = ResourceGroup(scope, id, name=name, location=location, tags=tags)
    place = Placement(
        environment=environment,
        resource_group=group.name,
        location=location,
        zone=zone,
        tags=tags,
        group_id=group.id,
        shared=existing is not None,
        proxy=proxy,
        ssh_keys=ssh_keys,
        protect=protect,
        naming=naming,
    )
    put(scope, place)
    return place


def _naming_around(scope: Construct) -> Naming:
    """The naming of the placement around `scope`; the default where there is none."""
    with suppress(UserError):
        return place_of(scope).naming
    return Naming()


class _ExistingGroup(Component):
    """An existing resource group: it stays when all in it is destroyed.

    The plan fails if Terraform deploys to another subscription than the group's.
    """

    def __init__(self, scope: Construct, id: str, group_id: str) -> None:  # noqa: A002
        super().__init__(scope, id)
        self.id = group_id
        self.name = parts_of("resource group", group_id)["name"]
        found = DataResourceGroup(self, "group", name=self.name).reference("id")
        stop_unless(
            self,
            "resource_group",
            # Azure ignores case in ids.
            f'lower({found}) == "{group_id.lower()}"',
            f"{self.name} is in another subscription than Terraform deploys to: correct "
            "`resource_group.existing`, or choose the subscription with ARM_SUBSCRIPTION_ID",
            value=group_id,
            description="Existing resource group",
        )


def stop_unless(
    scope: Component, name: str, condition: str, message: str, *, value: str, description: str
) -> None:
    """An output with a value that holds only where the Terraform expression `condition` does: else
    Terraform stops.

    >>> stop_unless(self, "group", 'data.….id == "…"', "no such group", value=id,
    ...             description="Existing resource group")  # doctest: +SKIP
    """
    output = Output(
        scope, name, value=value, description=description, static_id=scope.short_addresses
    )
    # An override: cdktf takes a precondition of an output, and does not write it.
    output.add_override(
        "precondition", {"condition": f"${{{condition}}}", "error_message": message}
    )


def client_config(scope: Construct) -> DataClientConfig:
    """Who runs Terraform, and in which subscription; read once a stack."""
    inside = surroundings(scope)
    return inside.addresses.shared("current", lambda: DataClientConfig(inside.stack, "current"))


def subscription_of(scope: Construct) -> str:
    """The resource id of the subscription that is deployed to."""
    return f"/subscriptions/{client_config(scope).subscription_id}"


def id_in_group(scope: Construct, type: str, name: str) -> str:  # noqa: A002
    """The id that a resource of that type has, in the group of what is made in `scope`, by its name
    alone: it is known before the resource is made, and while it is being replaced.

    >>> id_in_group(stack, "Microsoft.Compute/virtualMachines", "h100-vm-data")  # doctest: +SKIP
    """
    group = f"{subscription_of(scope)}/resourceGroups/{place_of(scope).resource_group}"
    return f"{group}/providers/{type}/{name}"


def unique_name(scope: Construct, kind: str, *parts: str) -> str:
    """A name of that kind and these parts, which Terraform completes from the subscription's id.

    >>> unique_name(stack, "key_vault", place)  # doctest: +SKIP
    'h100-kv${substr(sha256(join("-", [data.azurerm_client_config.current…, "h100"])), 0, 8)}'
    """
    place = place_of(scope)
    suffix = unique_suffix(client_config(scope).subscription_id, place.environment)
    return place.name(kind, *parts, suffix=suffix)
