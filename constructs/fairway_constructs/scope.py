"""A scope that says where all goes that is made in it: its children find that by themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.azurerm.data_resource_group import DataResourceGroup
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.cdk import Component, Output, surroundings
from fairway_constructs.placement import Placement
from fairway_core.findings import UserError
from fairway_core.naming import Naming, unique_suffix
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_core.environment.keys import SshKey
    from fairway_core.environment.tags import TagArgument
    from fairway_core.environment.values import Location, Zone
    from fairway_core.resource_ids import ResourceGroupId


T = TypeVar("T")


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
