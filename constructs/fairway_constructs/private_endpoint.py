"""Private endpoints: addresses inside the virtual network for services without public ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.private_dns_zone import PrivateDnsZone
from fairway_constructs.azurerm.private_dns_zone_virtual_network_link import (
    PrivateDnsZoneVirtualNetworkLink,
)
from fairway_constructs.azurerm.private_endpoint import (
    PrivateDnsZoneGroup,
    PrivateEndpoint,
    PrivateServiceConnection,
)
from fairway_constructs.cdk import Component, Lifecycle
from fairway_constructs.scope import azure_scope_of
from fairway_core.catalog.terraform_types import private_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.network_access import HasSubnets, SubnetRef


class PrivateEndpoints(Component):
    """A factory of endpoints in one subnet; it creates each private DNS zone once, on first use.

    `subnet` is by default the one of the network with the role `endpoints`.
    The zones are below this construct, beside the network that resolves names by them; an endpoint
    is beside the service that it leads to. So everything inside the network keeps using the
    service's public name, and gets the address of the endpoint.

    `existing_zones` are the ids of zones by their names, which replace new ones and are linked by
    their owner. If it is empty a policy of that owner registers the endpoints.

    >>> endpoints = PrivateEndpoints(stack, network=network)
    >>> endpoints.connect(stack, "data", service="blob",
    ...                   resource_id=storage.id)
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "private-endpoints",
        *,
        network: HasSubnets,
        subnet: SubnetRef | None = None,
        existing_zones: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._existing_zones = existing_zones
        self._network_id, self._subnet = network.id, subnet or network.subnet("endpoints")
        self.zones: dict[str, PrivateDnsZone] = {}

    def connect(
        self, scope: Construct, name: str, *, service: str, resource_id: str
    ) -> PrivateEndpoint:
        """Creates an endpoint to a resource; `service` is a row of private_links.toml ("blob")."""
        azure = azure_scope_of(scope)
        link = private_link(service)
        zone = self._zone_id(link.zone)
        return PrivateEndpoint(
            scope,
            f"{name}-endpoint",
            name=azure.name("private_endpoint", name),
            **azure.common,
            subnet_id=self._subnet.id,
            private_service_connection=PrivateServiceConnection(
                name=name,
                is_manual_connection=False,
                private_connection_resource_id=resource_id,
                subresource_names=[link.subresource],
            ),
            private_dns_zone_group=(
                PrivateDnsZoneGroup(name=name, private_dns_zone_ids=[zone]) if zone else None
            ),
            # A zone group that a policy has added is not drift.
            lifecycle=None if zone else Lifecycle(ignore_changes=["private_dns_zone_group"]),
        )

    def _zone_id(self, name: str) -> str | None:
        if self._existing_zones is not None:
            return self._existing_zones[name] if self._existing_zones else None
        if name not in self.zones:
            azure, id = self.azure, name.replace(".", "-")
            zone = self.zones[name] = PrivateDnsZone(
                self, id, name=name, resource_group_name=azure.resource_group, tags=azure.tags
            )
            PrivateDnsZoneVirtualNetworkLink(
                self,
                f"{id}-link",
                name=azure.name("private_dns_zone_virtual_network_link"),
                private_dns_zone_id=zone.id,
                virtual_network_id=self._network_id,
                tags=azure.tags,
            )
        return self.zones[name].id
