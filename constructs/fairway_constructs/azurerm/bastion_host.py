"""Resource azurerm_bastion_host of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class IpConfiguration(Block):
    """The block `ip_configuration`."""

    name: str
    subnet_id: str
    public_ip_address_id: str | None = None


class BastionHost(Resource):
    """The resource azurerm_bastion_host."""

    TYPE = "azurerm_bastion_host"

    copy_paste_enabled = BooleanAttribute()
    dns_name = StringAttribute()
    file_copy_enabled = BooleanAttribute()
    id = StringAttribute()
    ip_connect_enabled = BooleanAttribute()
    kerberos_enabled = BooleanAttribute()
    location = StringAttribute()
    name = StringAttribute()
    private_only_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    scale_units = NumberAttribute()
    session_recording_enabled = BooleanAttribute()
    shareable_link_enabled = BooleanAttribute()
    sku = StringAttribute()
    tags = MapAttribute()
    tunneling_enabled = BooleanAttribute()
    virtual_network_id = StringAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        copy_paste_enabled: bool | None = None,
        file_copy_enabled: bool | None = None,
        ip_connect_enabled: bool | None = None,
        kerberos_enabled: bool | None = None,
        scale_units: float | None = None,
        session_recording_enabled: bool | None = None,
        shareable_link_enabled: bool | None = None,
        sku: str | None = None,
        tags: Mapping[str, str] | None = None,
        tunneling_enabled: bool | None = None,
        virtual_network_id: str | None = None,
        zones: Sequence[str] | None = None,
        ip_configuration: IpConfiguration | None = None,
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
                "copy_paste_enabled": copy_paste_enabled,
                "file_copy_enabled": file_copy_enabled,
                "ip_connect_enabled": ip_connect_enabled,
                "kerberos_enabled": kerberos_enabled,
                "scale_units": scale_units,
                "session_recording_enabled": session_recording_enabled,
                "shareable_link_enabled": shareable_link_enabled,
                "sku": sku,
                "tags": tags,
                "tunneling_enabled": tunneling_enabled,
                "virtual_network_id": virtual_network_id,
                "zones": zones,
                "ip_configuration": ip_configuration,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
