"""Resource azurerm_managed_lustre_file_system of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class EncryptionKey(Block):
    """The block `encryption_key`."""

    key_url: str
    source_vault_id: str


class HsmSetting(Block):
    """The block `hsm_setting`."""

    container_id: str
    logging_container_id: str
    import_prefix: str | None = None


class Identity(Block):
    """The block `identity`."""

    identity_ids: Sequence[str]
    type: str


class MaintenanceWindow(Block):
    """The block `maintenance_window`."""

    day_of_week: str
    time_of_day_in_utc: str


class RootSquash(Block):
    """The block `root_squash`."""

    mode: str
    no_squash_nids: str
    squash_gid: float | None = None
    squash_uid: float | None = None


class ManagedLustreFileSystem(Resource):
    """The resource azurerm_managed_lustre_file_system."""

    TYPE = "azurerm_managed_lustre_file_system"

    id = StringAttribute()
    location = StringAttribute()
    mgs_address = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    sku_name = StringAttribute()
    storage_capacity_in_tb = NumberAttribute()
    subnet_id = StringAttribute()
    tags = MapAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        sku_name: str,
        storage_capacity_in_tb: float,
        subnet_id: str,
        zones: Sequence[str],
        maintenance_window: MaintenanceWindow,
        tags: Mapping[str, str] | None = None,
        encryption_key: EncryptionKey | None = None,
        hsm_setting: HsmSetting | None = None,
        identity: Identity | None = None,
        root_squash: RootSquash | None = None,
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
                "sku_name": sku_name,
                "storage_capacity_in_tb": storage_capacity_in_tb,
                "subnet_id": subnet_id,
                "zones": zones,
                "maintenance_window": maintenance_window,
                "tags": tags,
                "encryption_key": encryption_key,
                "hsm_setting": hsm_setting,
                "identity": identity,
                "root_squash": root_squash,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
