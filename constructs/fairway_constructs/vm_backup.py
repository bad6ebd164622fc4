"""Daily backups of VMs with all their disks, in one vault of the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.backup_policy_vm import Backup, BackupPolicyVm, RetentionDaily
from fairway_constructs.azurerm.backup_protected_vm import BackupProtectedVm
from fairway_constructs.azurerm.recovery_services_vault import RecoveryServicesVault
from fairway_constructs.protection import delete_lock, kept
from fairway_constructs.scope import once, place_of
from fairway_constructs.unique_name import client_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable

# How long a restore needs no copy from the vault; each day of it is a snapshot of every disk.
_SNAPSHOT_DAYS = 2


def back_up(
    scope: Construct,
    name: str,
    *,
    machine_name: str,
    keep_days: int,
    at: str,
    depends_on: Sequence[ITerraformDependable] = (),
) -> None:
    """Backs a VM of `place` up each day `at` that time (UTC, "02:00"), and keeps it `keep_days`.

    `depends_on` is the VM, and what attaches its disks. The policy is Azure's enhanced one, the
    only one that takes Premium SSD v2 and Ultra disks. In a stack with `protect` neither Terraform
    nor Azure deletes the backups.

    >>> back_up(stack, "nfs-data", machine_name="h100-vm-data", keep_days=30,
    ...         at="02:00", depends_on=[machine, *attachments])  # doctest: +SKIP
    """
    place = place_of(scope)
    vault = _vault(scope)
    policy = BackupPolicyVm(
        scope,
        f"{name}-backup-policy",
        name=place.name("backup_policy_vm", name),
        resource_group_name=place.resource_group,
        recovery_vault_name=vault.name,
        policy_type="V2",
        timezone="UTC",
        backup=Backup(frequency="Daily", time=at),
        retention_daily=RetentionDaily(count=keep_days),
        instant_restore_retention_days=_SNAPSHOT_DAYS,
    )
    BackupProtectedVm(
        scope,
        f"{name}-backup",
        resource_group_name=place.resource_group,
        recovery_vault_name=vault.name,
        # Not the VM's own reference: that is unknown while a VM is being replaced, and
        # Terraform would then give up the backups of the old one.
        source_vm_id=_machine_id(scope, machine_name),
        backup_policy_id=policy.id,
        lifecycle=kept(scope),
        depends_on=depends_on,
    )


def _machine_id(scope: Construct, machine_name: str) -> str:
    place = place_of(scope)
    subscription = client_config(scope).subscription_id
    return (
        f"/subscriptions/{subscription}/resourceGroups/{place.resource_group}"
        f"/providers/Microsoft.Compute/virtualMachines/{machine_name}"
    )


def _vault(scope: Construct) -> RecoveryServicesVault:
    """The vault, made for the first VM that needs it."""

    place = place_of(scope)

    def make(stack: Construct, id: str) -> RecoveryServicesVault:  # noqa: A002
        vault = RecoveryServicesVault(
            stack,
            id,
            name=place.name("recovery_services_vault"),
            **place.common,
            sku="Standard",
            storage_mode_type="ZoneRedundant" if place.zone else "LocallyRedundant",
            # VMs are backed up by the platform, and no client of ours calls it.
            public_network_access_enabled=False,
            lifecycle=kept(stack),
        )
        delete_lock(stack, id=id, on=vault)
        return vault

    return once(scope, "backup-vault", make)
