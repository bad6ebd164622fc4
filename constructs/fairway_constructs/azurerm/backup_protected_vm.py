"""Resource azurerm_backup_protected_vm of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import NumberListAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class BackupProtectedVm(Resource):
    """The resource azurerm_backup_protected_vm."""

    TYPE = "azurerm_backup_protected_vm"

    backup_policy_id = StringAttribute()
    exclude_disk_luns = NumberListAttribute()
    id = StringAttribute()
    include_disk_luns = NumberListAttribute()
    protection_state = StringAttribute()
    recovery_vault_name = StringAttribute()
    resource_group_name = StringAttribute()
    source_vm_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        recovery_vault_name: str,
        resource_group_name: str,
        backup_policy_id: str | None = None,
        exclude_disk_luns: Sequence[float] | None = None,
        include_disk_luns: Sequence[float] | None = None,
        protection_state: str | None = None,
        source_vm_id: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "recovery_vault_name": recovery_vault_name,
                "resource_group_name": resource_group_name,
                "backup_policy_id": backup_policy_id,
                "exclude_disk_luns": exclude_disk_luns,
                "include_disk_luns": include_disk_luns,
                "protection_state": protection_state,
                "source_vm_id": source_vm_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
