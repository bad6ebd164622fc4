"""Data source azurerm_virtual_machine_scale_set of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import ObjectAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataVirtualMachineScaleSet(DataSource):
    """The data source azurerm_virtual_machine_scale_set."""

    TYPE = "azurerm_virtual_machine_scale_set"

    id = StringAttribute()
    identity = ObjectAttribute()
    instances = ObjectAttribute()
    location = StringAttribute()
    name = StringAttribute()
    network_interface = ObjectAttribute()
    resource_group_name = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
