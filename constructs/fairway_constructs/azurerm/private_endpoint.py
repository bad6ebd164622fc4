"""Resource azurerm_private_endpoint of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, ObjectAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class IpConfiguration(Block):
    """The block `ip_configuration`."""

    name: str
    private_ip_address: str
    member_name: str | None = None
    subresource_name: str | None = None


class PrivateDnsZoneGroup(Block):
    """The block `private_dns_zone_group`."""

    name: str
    private_dns_zone_ids: Sequence[str]


class PrivateServiceConnection(Block):
    """The block `private_service_connection`."""

    is_manual_connection: bool
    name: str
    private_connection_resource_alias: str | None = None
    private_connection_resource_id: str | None = None
    request_message: str | None = None
    subresource_names: Sequence[str] | None = None


class PrivateEndpoint(Resource):
    """The resource azurerm_private_endpoint."""

    TYPE = "azurerm_private_endpoint"

    custom_dns_configs = ObjectAttribute()
    custom_network_interface_name = StringAttribute()
    edge_zone = StringAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    network_interface = ObjectAttribute()
    private_dns_zone_configs = ObjectAttribute()
    resource_group_name = StringAttribute()
    subnet_id = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        subnet_id: str,
        private_service_connection: PrivateServiceConnection,
        custom_network_interface_name: str | None = None,
        edge_zone: str | None = None,
        tags: Mapping[str, str] | None = None,
        ip_configuration: Sequence[IpConfiguration] | None = None,
        private_dns_zone_group: PrivateDnsZoneGroup | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "subnet_id": subnet_id,
                "private_service_connection": private_service_connection,
                "custom_network_interface_name": custom_network_interface_name,
                "edge_zone": edge_zone,
                "tags": tags,
                "ip_configuration": ip_configuration,
                "private_dns_zone_group": private_dns_zone_group,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
