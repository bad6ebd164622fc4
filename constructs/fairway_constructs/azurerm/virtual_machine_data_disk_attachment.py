"""Resource azurerm_virtual_machine_data_disk_attachment of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class VirtualMachineDataDiskAttachment(Resource):
    """The resource azurerm_virtual_machine_data_disk_attachment."""

    TYPE = "azurerm_virtual_machine_data_disk_attachment"

    caching = StringAttribute()
    create_option = StringAttribute()
    id = StringAttribute()
    lun = NumberAttribute()
    managed_disk_id = StringAttribute()
    virtual_machine_id = StringAttribute()
    write_accelerator_enabled = BooleanAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        caching: str,
        lun: float,
        managed_disk_id: str,
        virtual_machine_id: str,
        create_option: str | None = None,
        write_accelerator_enabled: bool | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "caching": caching,
                "lun": lun,
                "managed_disk_id": managed_disk_id,
                "virtual_machine_id": virtual_machine_id,
                "create_option": create_option,
                "write_accelerator_enabled": write_accelerator_enabled,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
