"""Resource azurerm_network_security_rule of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import ListAttribute, NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class NetworkSecurityRule(Resource):
    """The resource azurerm_network_security_rule."""

    TYPE = "azurerm_network_security_rule"

    access = StringAttribute()
    description = StringAttribute()
    destination_address_prefix = StringAttribute()
    destination_address_prefixes = ListAttribute()
    destination_application_security_group_ids = ListAttribute()
    destination_port_range = StringAttribute()
    destination_port_ranges = ListAttribute()
    direction = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    network_security_group_name = StringAttribute()
    priority = NumberAttribute()
    protocol = StringAttribute()
    resource_group_name = StringAttribute()
    source_address_prefix = StringAttribute()
    source_address_prefixes = ListAttribute()
    source_application_security_group_ids = ListAttribute()
    source_port_range = StringAttribute()
    source_port_ranges = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        access: str,
        direction: str,
        name: str,
        network_security_group_name: str,
        priority: float,
        protocol: str,
        resource_group_name: str,
        description: str | None = None,
        destination_address_prefix: str | None = None,
        destination_address_prefixes: Sequence[str] | None = None,
        destination_application_security_group_ids: Sequence[str] | None = None,
        destination_port_range: str | None = None,
        destination_port_ranges: Sequence[str] | None = None,
        source_address_prefix: str | None = None,
        source_address_prefixes: Sequence[str] | None = None,
        source_application_security_group_ids: Sequence[str] | None = None,
        source_port_range: str | None = None,
        source_port_ranges: Sequence[str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "access": access,
                "direction": direction,
                "name": name,
                "network_security_group_name": network_security_group_name,
                "priority": priority,
                "protocol": protocol,
                "resource_group_name": resource_group_name,
                "description": description,
                "destination_address_prefix": destination_address_prefix,
                "destination_address_prefixes": destination_address_prefixes,
                "destination_application_security_group_ids": destination_application_security_group_ids,
                "destination_port_range": destination_port_range,
                "destination_port_ranges": destination_port_ranges,
                "source_address_prefix": source_address_prefix,
                "source_address_prefixes": source_address_prefixes,
                "source_application_security_group_ids": source_application_security_group_ids,
                "source_port_range": source_port_range,
                "source_port_ranges": source_port_ranges,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
