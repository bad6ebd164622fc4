"""Resource azurerm_virtual_network of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SubnetDelegationServiceDelegation(ObjectValue):
    """An object in `subnet.delegation.service_delegation`."""

    actions: Sequence[str] | None = None
    name: str | None = None


class SubnetDelegation(ObjectValue):
    """An object in `subnet.delegation`."""

    name: str | None = None
    service_delegation: Sequence[SubnetDelegationServiceDelegation] | None = None


class SubnetServiceEndpoint(ObjectValue):
    """An object in `subnet.service_endpoint`."""

    network_identifier: str | None = None
    service: str | None = None


class Subnet(ObjectValue):
    """An object in `subnet`."""

    address_prefixes: Sequence[str] | None = None
    default_outbound_access_enabled: bool | None = None
    delegation: Sequence[SubnetDelegation] | None = None
    id: str | None = None
    name: str | None = None
    private_endpoint_network_policies: str | None = None
    private_link_service_network_policies_enabled: bool | None = None
    route_table_id: str | None = None
    security_group: str | None = None
    service_endpoint: Sequence[SubnetServiceEndpoint] | None = None
    service_endpoint_policy_ids: Sequence[str] | None = None


class DdosProtectionPlan(Block):
    """The block `ddos_protection_plan`."""

    enable: bool
    id: str


class Encryption(Block):
    """The block `encryption`."""

    enforcement: str


class IpAddressPool(Block):
    """The block `ip_address_pool`."""

    id: str
    number_of_ip_addresses: str


class VirtualNetwork(Resource):
    """The resource azurerm_virtual_network."""

    TYPE = "azurerm_virtual_network"

    address_space = ListAttribute()
    bgp_community = StringAttribute()
    dns_servers = ListAttribute()
    edge_zone = StringAttribute()
    flow_timeout_in_minutes = NumberAttribute()
    guid = StringAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    private_endpoint_vnet_policies = StringAttribute()
    resource_group_name = StringAttribute()
    subnet = ObjectAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        address_space: Sequence[str] | None = None,
        bgp_community: str | None = None,
        dns_servers: Sequence[str] | None = None,
        edge_zone: str | None = None,
        flow_timeout_in_minutes: float | None = None,
        private_endpoint_vnet_policies: str | None = None,
        subnet: Sequence[Subnet] | None = None,
        tags: Mapping[str, str] | None = None,
        ddos_protection_plan: DdosProtectionPlan | None = None,
        encryption: Encryption | None = None,
        ip_address_pool: Sequence[IpAddressPool] | None = None,
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
                "address_space": address_space,
                "bgp_community": bgp_community,
                "dns_servers": dns_servers,
                "edge_zone": edge_zone,
                "flow_timeout_in_minutes": flow_timeout_in_minutes,
                "private_endpoint_vnet_policies": private_endpoint_vnet_policies,
                "subnet": subnet,
                "tags": tags,
                "ddos_protection_plan": ddos_protection_plan,
                "encryption": encryption,
                "ip_address_pool": ip_address_pool,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
