"""Resource azurerm_public_ip of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class PublicIp(Resource):
    """The resource azurerm_public_ip."""

    TYPE = "azurerm_public_ip"

    allocation_method = StringAttribute()
    ddos_protection_mode = StringAttribute()
    ddos_protection_plan_id = StringAttribute()
    domain_name_label = StringAttribute()
    domain_name_label_scope = StringAttribute()
    edge_zone = StringAttribute()
    fqdn = StringAttribute()
    id = StringAttribute()
    idle_timeout_in_minutes = NumberAttribute()
    ip_address = StringAttribute()
    ip_tags = MapAttribute()
    ip_version = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    public_ip_prefix_id = StringAttribute()
    resource_group_name = StringAttribute()
    reverse_fqdn = StringAttribute()
    sku = StringAttribute()
    sku_tier = StringAttribute()
    tags = MapAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        allocation_method: str,
        location: str,
        name: str,
        resource_group_name: str,
        ddos_protection_mode: str | None = None,
        ddos_protection_plan_id: str | None = None,
        domain_name_label: str | None = None,
        domain_name_label_scope: str | None = None,
        edge_zone: str | None = None,
        idle_timeout_in_minutes: float | None = None,
        ip_tags: Mapping[str, str] | None = None,
        ip_version: str | None = None,
        public_ip_prefix_id: str | None = None,
        reverse_fqdn: str | None = None,
        sku: str | None = None,
        sku_tier: str | None = None,
        tags: Mapping[str, str] | None = None,
        zones: Sequence[str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "allocation_method": allocation_method,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "ddos_protection_mode": ddos_protection_mode,
                "ddos_protection_plan_id": ddos_protection_plan_id,
                "domain_name_label": domain_name_label,
                "domain_name_label_scope": domain_name_label_scope,
                "edge_zone": edge_zone,
                "idle_timeout_in_minutes": idle_timeout_in_minutes,
                "ip_tags": ip_tags,
                "ip_version": ip_version,
                "public_ip_prefix_id": public_ip_prefix_id,
                "reverse_fqdn": reverse_fqdn,
                "sku": sku,
                "sku_tier": sku_tier,
                "tags": tags,
                "zones": zones,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
