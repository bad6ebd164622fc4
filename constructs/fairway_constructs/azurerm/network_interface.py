"""Resource azurerm_network_interface of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class IpConfiguration(Block):
    """The block `ip_configuration`."""

    name: str
    private_ip_address_allocation: str
    gateway_load_balancer_frontend_ip_configuration_id: str | None = None
    primary: bool | None = None
    private_ip_address: str | None = None
    private_ip_address_version: str | None = None
    public_ip_address_id: str | None = None
    subnet_id: str | None = None


class NetworkInterface(Resource):
    """The resource azurerm_network_interface."""

    TYPE = "azurerm_network_interface"

    accelerated_networking_enabled = BooleanAttribute()
    applied_dns_servers = ListAttribute()
    auxiliary_mode = StringAttribute()
    auxiliary_sku = StringAttribute()
    dns_servers = ListAttribute()
    edge_zone = StringAttribute()
    id = StringAttribute()
    internal_dns_name_label = StringAttribute()
    internal_domain_name_suffix = StringAttribute()
    ip_forwarding_enabled = BooleanAttribute()
    location = StringAttribute()
    mac_address = StringAttribute()
    name = StringAttribute()
    private_ip_address = StringAttribute()
    private_ip_addresses = ListAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()
    virtual_machine_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        ip_configuration: Sequence[IpConfiguration],
        accelerated_networking_enabled: bool | None = None,
        auxiliary_mode: str | None = None,
        auxiliary_sku: str | None = None,
        dns_servers: Sequence[str] | None = None,
        edge_zone: str | None = None,
        internal_dns_name_label: str | None = None,
        ip_forwarding_enabled: bool | None = None,
        tags: Mapping[str, str] | None = None,
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
                "ip_configuration": ip_configuration,
                "accelerated_networking_enabled": accelerated_networking_enabled,
                "auxiliary_mode": auxiliary_mode,
                "auxiliary_sku": auxiliary_sku,
                "dns_servers": dns_servers,
                "edge_zone": edge_zone,
                "internal_dns_name_label": internal_dns_name_label,
                "ip_forwarding_enabled": ip_forwarding_enabled,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
