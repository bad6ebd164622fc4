"""Resource azurerm_virtual_machine_extension of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ProtectedSettingsFromKeyVault(Block):
    """The block `protected_settings_from_key_vault`."""

    secret_url: str
    source_vault_id: str


class VirtualMachineExtension(Resource):
    """The resource azurerm_virtual_machine_extension."""

    TYPE = "azurerm_virtual_machine_extension"

    auto_upgrade_minor_version = BooleanAttribute()
    automatic_upgrade_enabled = BooleanAttribute()
    failure_suppression_enabled = BooleanAttribute()
    id = StringAttribute()
    name = StringAttribute()
    protected_settings = StringAttribute()
    provision_after_extensions = ListAttribute()
    publisher = StringAttribute()
    settings = StringAttribute()
    tags = MapAttribute()
    type = StringAttribute()
    type_handler_version = StringAttribute()
    virtual_machine_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        publisher: str,
        type: str,
        type_handler_version: str,
        virtual_machine_id: str,
        auto_upgrade_minor_version: bool | None = None,
        automatic_upgrade_enabled: bool | None = None,
        failure_suppression_enabled: bool | None = None,
        protected_settings: str | None = None,
        provision_after_extensions: Sequence[str] | None = None,
        settings: str | None = None,
        tags: Mapping[str, str] | None = None,
        protected_settings_from_key_vault: ProtectedSettingsFromKeyVault | None = None,
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
                "publisher": publisher,
                "type": type,
                "type_handler_version": type_handler_version,
                "virtual_machine_id": virtual_machine_id,
                "auto_upgrade_minor_version": auto_upgrade_minor_version,
                "automatic_upgrade_enabled": automatic_upgrade_enabled,
                "failure_suppression_enabled": failure_suppression_enabled,
                "protected_settings": protected_settings,
                "provision_after_extensions": provision_after_extensions,
                "settings": settings,
                "tags": tags,
                "protected_settings_from_key_vault": protected_settings_from_key_vault,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
