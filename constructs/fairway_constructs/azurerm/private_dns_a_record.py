"""Resource azurerm_private_dns_a_record of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

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


class PrivateDnsARecord(Resource):
    """The resource azurerm_private_dns_a_record."""

    TYPE = "azurerm_private_dns_a_record"

    fqdn = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    private_dns_zone_id = StringAttribute()
    records = ListAttribute()
    tags = MapAttribute()
    ttl = NumberAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        private_dns_zone_id: str,
        records: Sequence[str],
        ttl: float,
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
                "name": name,
                "private_dns_zone_id": private_dns_zone_id,
                "records": records,
                "ttl": ttl,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
