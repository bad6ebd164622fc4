"""Resource azurerm_netapp_pool of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class NetappPool(Resource):
    """The resource azurerm_netapp_pool."""

    TYPE = "azurerm_netapp_pool"

    account_name = StringAttribute()
    cool_access_enabled = BooleanAttribute()
    custom_throughput_mibps = NumberAttribute()
    encryption_type = StringAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    qos_type = StringAttribute()
    resource_group_name = StringAttribute()
    service_level = StringAttribute()
    size_in_tb = NumberAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        account_name: str,
        location: str,
        name: str,
        resource_group_name: str,
        service_level: str,
        size_in_tb: float,
        cool_access_enabled: bool | None = None,
        custom_throughput_mibps: float | None = None,
        encryption_type: str | None = None,
        qos_type: str | None = None,
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
                "account_name": account_name,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "service_level": service_level,
                "size_in_tb": size_in_tb,
                "cool_access_enabled": cool_access_enabled,
                "custom_throughput_mibps": custom_throughput_mibps,
                "encryption_type": encryption_type,
                "qos_type": qos_type,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
