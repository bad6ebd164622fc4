"""Placement and names of resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from fairway_constructs.arguments import checked
from fairway_core.naming import NAME_TAG, ROLE_TAG, Naming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_core.environment.values import Zone


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
