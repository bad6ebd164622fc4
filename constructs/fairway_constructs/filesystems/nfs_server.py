"""An NFS server: a replaceable VM, and persistent data disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm.backup_policy_vm import Backup as BackupTime
from fairway_constructs.azurerm.backup_policy_vm import BackupPolicyVm, RetentionDaily
from fairway_constructs.azurerm.backup_protected_vm import BackupProtectedVm
from fairway_constructs.azurerm.disk_encryption_set import DiskEncryptionSet, Identity
from fairway_constructs.azurerm.managed_disk import ManagedDisk
from fairway_constructs.azurerm.recovery_services_vault import RecoveryServicesVault
from fairway_constructs.cdk import wait_for
from fairway_constructs.cloud_init import export_path, nfs_server_cloud_init
from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_constructs.extensions import equip
from fairway_constructs.filesystems.base import FileSystem
from fairway_constructs.identity import Identity as ManagedIdentity
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import azure_scope_of, id_in_group, once
from fairway_constructs.server_vm import attach, private_interface, server_vm
from fairway_constructs.service import Diagnostics, Service
from fairway_core.catalog import vm_size
from fairway_core.catalog.disks import disk_kind
from fairway_core.environment.filesystems.nfs_server import NfsServer as NfsServerSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.azurerm.linux_virtual_machine import LinuxVirtualMachine
    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_constructs.filesystems.base import Site
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.vault import CustomerManagedKey
    from fairway_core.environment.filesystems.nfs_server import Backup, Disks, NfsVersion


# Days during which a restore needs no copy from the vault; each is a snapshot of every disk.
_SNAPSHOT_DAYS = 2


def _back_up(
    scope: Construct, name: str, backup: Backup, depends_on: Sequence[ITerraformDependable]
) -> None:
    """Backs up the VM of a server daily.

    `depends_on` is the VM, and the attachments of its disks. The policy is Azure's enhanced one,
    the only one that supports Premium SSD v2 and Ultra disks. In a stack with `protect` neither
    Terraform nor Azure deletes the backups.
    """
    azure = azure_scope_of(scope)
    vault = _vault(scope)
    policy = BackupPolicyVm(
        scope,
        f"nfs-{name}-backup-policy",
        name=azure.name("backup_policy_vm", f"nfs-{name}"),
        resource_group_name=azure.resource_group,
        recovery_vault_name=vault.name,
        policy_type="V2",
        timezone="UTC",
        backup=BackupTime(frequency="Daily", time=backup.at),
        retention_daily=RetentionDaily(count=backup.keep),
        instant_restore_retention_days=_SNAPSHOT_DAYS,
    )
    BackupProtectedVm(
        scope,
        f"nfs-{name}-backup",
        resource_group_name=azure.resource_group,
        recovery_vault_name=vault.name,
        # Not the VM's own reference: that is unknown while a VM is being replaced, and
        # Terraform would then give up the backups of the old one.
        source_vm_id=id_in_group(
            scope,
            "Microsoft.Compute/virtualMachines",
            azure.name("linux_virtual_machine", name),
        ),
        backup_policy_id=policy.id,
        lifecycle=lifecycle_of(scope),
        depends_on=depends_on,
    )


def _vault(scope: Construct) -> RecoveryServicesVault:
    """Returns the vault, created for the first VM that needs it."""

    azure = azure_scope_of(scope)

    def make(stack: Construct, id: str) -> RecoveryServicesVault:
        vault = RecoveryServicesVault(
            stack,
            id,
            name=azure.name("recovery_services_vault"),
            **azure.common,
            sku="Standard",
            storage_mode_type="ZoneRedundant" if azure.zone else "LocallyRedundant",
            # VMs are backed up by the platform, and none of our clients calls the vault.
            public_network_access_enabled=False,
            lifecycle=lifecycle_of(stack),
        )
        delete_lock(stack, id=id, on=vault)
        return vault

    return once(scope, "backup-vault", make)


# Threads of the NFS server for each core. Source: Azure's NFS guidance for HPC.
_THREADS_A_CORE = 4


class NfsServer(FileSystem, Service):
    """A VM that stripes data disks and exports them over NFS to `clients` only.

    `clients` defaults to the ranges of nodes in the network of `subnet`.

    Disks and network interface are separate resources: the VM may be replaced, as it is for each
    further disk, while its data and its address stay. In a stack with `protect` neither Terraform
    nor Azure deletes a disk; `lock` overrides this for Azure. With `monitored` the VM has the Azure
    Monitor agent. With `customer_managed_key` that key encrypts the data disks;
    `managed_identities` are for other programs on the VM.

    >>> server = NfsServer(stack, "data", subnet=network.subnet("storage"), path="/data",
    ...                    disks=Disks(count=4, gib=2048))
    >>> server.mount, server.throughput_mbps
    """

    # Azure itself only knows a VM's load; with `monitored` the agent sends the system's log.
    DIAGNOSTICS = Diagnostics(categories=None, metrics=True, usual=False)

    virtual_machine: LinuxVirtualMachine

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        subnet: SubnetRef,
        path: str,
        size: str | None = None,
        disks: Disks | None = None,
        versions: Sequence[NfsVersion] | None = None,
        backup: Backup | None = None,
        clients: Sequence[IPv4Network] | None = None,
        monitored: bool = False,
        customer_managed_key: CustomerManagedKey | None = None,
        managed_identities: Sequence[IIdentity] = (),
        lock: bool | None = None,
    ) -> None:
        spec = NfsServerSpec.with_defaults(
            kind="nfs_server", path=path, size=size, disks=disks, versions=versions, backup=backup
        )
        super().__init__(scope, f"nfs-{name}", spec)
        encryption_id = _encryption(self, name, customer_managed_key)
        size_row = vm_size(spec.size)
        interface = private_interface(
            self, f"nfs-{name}-nic", name=name, size=size_row, subnet_id=subnet.id
        )
        # An identity without roles: the agent only signs in with it.
        own_ids = [ManagedIdentity(self, f"nfs-{name}-server-id").id] if monitored else []
        self.virtual_machine = server_vm(
            self,
            f"nfs-{name}-server",
            name=name,
            role="nfs-server",
            serves=name,
            size=size_row,
            interface_id=interface.id,
            cloud_init=nfs_server_cloud_init(
                name=name,
                disks=spec.disks.count,
                threads=_THREADS_A_CORE * size_row.cores,
                clients=subnet.clients(clients),
                versions=spec.versions,
                proxy=self.azure.proxy,
            ),
            identity_ids=[*own_ids, *(each.id for each in managed_identities)],
            ultra_disks=disk_kind(spec.disks.kind).enabled_by_vm,
        )
        wait_for(self.virtual_machine, *subnet.ready, *managed_identities)
        self.id = self.virtual_machine.id
        for identity_id in own_ids:
            equip(self, name, virtual_machine_id=self.id, agent_identity_id=identity_id)
        self.mount = nfs_mount(
            name=name,
            server=interface.private_ip_address,
            export=export_path(name),
            path=spec.path,
            version=spec.newest_version,
        )
        self.disks = [
            self._disk(name, lun, spec.disks, encryption_id) for lun in range(spec.disks.count)
        ]
        self._keep(name, spec.backup, lock=lock)

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        return {**section, "clients": site.clients, "monitored": site.monitored}

    def _keep(self, name: str, backup: Backup | None, *, lock: bool | None) -> None:
        """Attaches the disks to the VM, locks them, and backs them up with it."""
        attachments = []
        for lun, disk in enumerate(self.disks):
            attachments.append(
                attach(self, f"nfs-{name}-attachment-{lun}", disk.id, to=self.id, lun=lun)
            )
            delete_lock(self, id=f"nfs-{name}-disk-{lun}", on=disk, lock=lock)
        if backup:
            _back_up(self, name, backup, [self.virtual_machine, *attachments])

    def _disk(self, name: str, lun: int, spec: Disks, encryption_id: str | None) -> ManagedDisk:
        azure, kind = self.azure, disk_kind(spec.kind)
        return ManagedDisk(
            self,
            f"nfs-{name}-disk-{lun}",
            name=azure.name("managed_disk", name, str(lun)),
            **azure.common_of("nfs-disk", name),
            zone=azure.zone_text,
            storage_account_type=kind.sku,
            create_option="Empty",
            disk_size_gb=spec.gib,
            disk_iops_read_write=spec.disk_iops if kind.provisioned else None,
            disk_mbps_read_write=spec.disk_mbps if kind.provisioned else None,
            disk_encryption_set_id=encryption_id,
            network_access_policy="DenyAll",
            public_network_access_enabled=False,
            lifecycle=lifecycle_of(self),
        )


def _encryption(scope: Construct, name: str, key: CustomerManagedKey | None) -> str | None:
    """Returns the id of the set that encrypts disks with the key, and follows its rotation."""
    if key is None:
        return None
    azure = azure_scope_of(scope)
    return DiskEncryptionSet(
        scope,
        f"nfs-{name}-encryption",
        name=azure.name("disk_encryption_set", name),
        **azure.common,
        key_vault_key_id=key.url,
        auto_key_rotation_enabled=True,
        identity=Identity(type="UserAssigned", identity_ids=[key.identity_id]),
        lifecycle=lifecycle_of(scope),
        depends_on=key.ready,
    ).id
