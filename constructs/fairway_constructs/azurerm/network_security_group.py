"""Resource azurerm_network_security_group of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, ObjectAttribute, StringAttribute
from fairway_constructs.bindings.blocks import ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SecurityRule(ObjectValue):
    """An object in `security_rule`."""

    access: str | None = None
    description: str | None = None
    destination_address_prefix: str | None = None
    destination_address_prefixes: Sequence[str] | None = None
    destination_application_security_group_ids: Sequence[str] | None = None
    destination_port_range: str | None = None
    destination_port_ranges: Sequence[str] | None = None
    direction: str | None = None
    name: str | None = None
    priority: float | None = None
    protocol: str | None = None
    source_address_prefix: str | None = None
    source_address_prefixes: Sequence[str] | None = None
    source_application_security_group_ids: Sequence[str] | None = None
    source_port_range: str | None = None
    source_port_ranges: Sequence[str] | None = None


class NetworkSecurityGroup(Resource):
    """The resource azurerm_network_security_group."""

    TYPE = "azurerm_network_security_group"

    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    security_rule = ObjectAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        security_rule: Sequence[SecurityRule] | None = None,
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
                "security_rule": security_rule,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
