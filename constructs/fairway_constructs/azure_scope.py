"""The part of Azure in which resources are created, and their names there."""

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
    """The arguments that most Azure resources have."""

    resource_group_name: str
    location: str
    tags: Mapping[str, str] | None


@checked
@dataclass(frozen=True, kw_only=True)
class AzureScope:
    """A resource group, a region with one of its zones, and the tags of all resources in it.

    `resource_group` is the group's name, which may be a reference; `zone` is None in a region
    without zones; `group_id` is the group's id, if `use_resource_group` created or found it;
    `shared` says that others use the group too. Machines reach the internet by `proxy`, if there is
    one, and accept the `ssh_keys` of their administrators. With `protect` neither Terraform nor
    Azure deletes resources that hold data. `naming` determines the names of resources.

    >>> azure = AzureScope(environment="h100", resource_group="h100-rg-data",
    ...                    location="southcentralus", zone=1)
    >>> azure.name("virtual_network")
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
        """Returns the name of a resource of that kind, by `naming`; see `fairway_core.naming`."""
        return self.naming.name(kind, self.environment, *parts, region=self.location, suffix=suffix)

    def deployment_name(self, name: str) -> str:
        """Returns the name of a deployed template, which is unique in the resource group."""
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
        """Returns the tags, with the role of a resource and the name that its users give it.

        >>> lab = AzureScope(environment="lab", resource_group="lab-rg", location="westeurope")
        >>> lab.labelled("nfs-server", "data")
        {'fairway-role': 'nfs-server', 'fairway-name': 'data'}
        """
        return {**(self.tags or {}), ROLE_TAG: role, **({NAME_TAG: name} if name else {})}

    def common_of(self, role: str, name: str = "") -> Common:
        """Returns the arguments that most resources have, with tags for the role and name."""
        return {**self.common, "tags": self.labelled(role, name)}

    @property
    def zone_text(self) -> str | None:
        """The zone as the provider's argument."""
        return None if self.zone is None else str(self.zone)

    @property
    def zones(self) -> list[str] | None:
        """The zone as a list, for resources that could span several."""
        return None if self.zone_text is None else [self.zone_text]
