"""Resource azurerm_private_dns_zone of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SoaRecord(Block):
    """The block `soa_record`."""

    email: str
    expire_time: float | None = None
    minimum_ttl: float | None = None
    refresh_time: float | None = None
    retry_time: float | None = None
    tags: Mapping[str, str] | None = None
    ttl: float | None = None


class PrivateDnsZone(Resource):
    """The resource azurerm_private_dns_zone."""

    TYPE = "azurerm_private_dns_zone"

    id = StringAttribute()
    max_number_of_record_sets = NumberAttribute()
    max_number_of_virtual_network_links = NumberAttribute()
    max_number_of_virtual_network_links_with_registration = NumberAttribute()
    name = StringAttribute()
    number_of_record_sets = NumberAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        tags: Mapping[str, str] | None = None,
        soa_record: SoaRecord | None = None,
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
                "tags": tags,
                "soa_record": soa_record,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
