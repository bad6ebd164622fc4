"""Where the resources of a stack go, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.cdk import surroundings
from fairway_constructs.existing_group import ExistingGroup
from fairway_core.naming import resource_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.proxy import MachineProxy


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A resource group, a region with one of its zones, and the tags of all that is in it.

    `resource_group` is the group's name, which may be a reference; `zone` is None where a
    region has no zones; `group_id` is the group's id, where `place_in_group` made or found it;
    `shared` says that others use the group too. Machines reach the internet by `proxy`, where
    there is one.

    >>> place = Placement(environment="h100", resource_group="h100-rg-data",
    ...                   location="southcentralus", zone=1)
    >>> place.name("virtual_network")
    'h100-vnet'
    """

    environment: str
    resource_group: str
    location: str
    zone: int | None = None
    tags: Mapping[str, str] | None = None
    group_id: str | None = None
    shared: bool = False
    proxy: MachineProxy | None = None

    def name(self, kind: str, *parts: str, suffix: str = "") -> str:
        """The name of a resource of that kind, by the one rule; see `fairway_core.naming`."""
        return resource_name(kind, self.environment, *parts, suffix=suffix)

    def deployment_name(self, name: str) -> str:
        """The name of a deployed template, which only has to be free in the resource group."""
        return f"{self.environment}-{name}" if self.shared else name

    @property
    def zones(self) -> list[str] | None:
        """The zone as a list, for resources that could span several."""
        return None if self.zone is None else [str(self.zone)]


def once(
    scope: Construct,
    id: str,  # noqa: A002
    place: Placement,
    make: Callable[[Construct, str], T],
) -> T:
    """What an environment has once in a stack; `make` gets the stack and the id that it has there.

    >>> once(stack, "netapp", place, lambda scope, id: NetappAccount(scope, id, …))
    ... # doctest: +SKIP
    """
    inside = surroundings(scope)

    def named() -> T:
        first = inside.addresses.is_first(once, id)
        return make(inside.stack, id if first else f"{id}-{place.environment}")

    return inside.addresses.shared((id, place.environment), named)


def place_in_group(
    scope: Construct,
    id: str = "group",  # noqa: A002
    *,
    environment: str,
    role: str,
    location: str,
    zone: int | None = None,
    tags: Mapping[str, str] | None = None,
    existing: str | None = None,
    proxy: MachineProxy | None = None,
) -> Placement:
    """Creates a resource group for that role, and returns the placement in it.

    With `existing`, the id of a group that is there already, none is made. A further group in a
    stack has an `id` of its own, which is its address.

    >>> place_in_group(stack, environment="h100", role="network",
    ...                location="southcentralus")  # doctest: +SKIP
    """
    group: ExistingGroup | ResourceGroup
    if existing:
        group = ExistingGroup(scope, id, group_id=existing)
    else:
        name = resource_name("resource_group", environment, role)
        group = ResourceGroup(scope, id, name=name, location=location, tags=tags)
    return Placement(
        environment=environment,
        resource_group=group.name,
        location=location,
        zone=zone,
        tags=tags,
        group_id=group.id,
        shared=existing is not None,
        proxy=proxy,
    )
