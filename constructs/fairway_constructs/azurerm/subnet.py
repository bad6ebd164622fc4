"""Resource azurerm_subnet of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class DelegationServiceDelegation(Block):
    """The block `delegation.service_delegation`."""

    name: str
    actions: Sequence[str] | None = None


class Delegation(Block):
    """The block `delegation`."""

    name: str
    service_delegation: DelegationServiceDelegation


class IpAddressPool(Block):
    """The block `ip_address_pool`."""

    id: str
    number_of_ip_addresses: str


class ServiceEndpoint(Block):
    """The block `service_endpoint`."""

    service: str
    network_identifier: str | None = None


class Subnet(Resource):
    """The resource azurerm_subnet."""

    TYPE = "azurerm_subnet"

    address_prefixes = ListAttribute()
    default_outbound_access_enabled = BooleanAttribute()
    id = StringAttribute()
    name = StringAttribute()
    network_security_group_id = StringAttribute()
    network_security_group_id_wo_version = NumberAttribute()
    private_endpoint_network_policies = StringAttribute()
    private_link_service_network_policies_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    route_table_id = StringAttribute()
    route_table_id_wo_version = NumberAttribute()
    service_endpoint_policy_ids = ListAttribute()
    sharing_scope = StringAttribute()
    virtual_network_name = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        virtual_network_name: str,
        address_prefixes: Sequence[str] | None = None,
        default_outbound_access_enabled: bool | None = None,
        network_security_group_id_wo: str | None = None,
        network_security_group_id_wo_version: float | None = None,
        private_endpoint_network_policies: str | None = None,
        private_link_service_network_policies_enabled: bool | None = None,
        route_table_id_wo: str | None = None,
        route_table_id_wo_version: float | None = None,
        service_endpoint_policy_ids: Sequence[str] | None = None,
        sharing_scope: str | None = None,
        delegation: Sequence[Delegation] | None = None,
        ip_address_pool: IpAddressPool | None = None,
        service_endpoint: Sequence[ServiceEndpoint] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "virtual_network_name": virtual_network_name,
                "address_prefixes": address_prefixes,
                "default_outbound_access_enabled": default_outbound_access_enabled,
                "network_security_group_id_wo": network_security_group_id_wo,
                "network_security_group_id_wo_version": network_security_group_id_wo_version,
                "private_endpoint_network_policies": private_endpoint_network_policies,
                "private_link_service_network_policies_enabled": private_link_service_network_policies_enabled,
                "route_table_id_wo": route_table_id_wo,
                "route_table_id_wo_version": route_table_id_wo_version,
                "service_endpoint_policy_ids": service_endpoint_policy_ids,
                "sharing_scope": sharing_scope,
                "delegation": delegation,
                "ip_address_pool": ip_address_pool,
                "service_endpoint": service_endpoint,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
