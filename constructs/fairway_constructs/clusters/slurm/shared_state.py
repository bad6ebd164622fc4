"""Slurm resources that outlive clusters: the munge key's vault, two identities, a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairway_constructs.azurerm.managed_disk import ManagedDisk
from fairway_constructs.identity import Identity
from fairway_constructs.network_access import public_ranges
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.service import Service
from fairway_constructs.vault import key_vault

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_core.fields import Count

_KEPT_DAYS = 90


class SlurmSharedState(Service):
    """The vault of the munge key, which holds nothing else, so that a role on it is one on the key.

    The scheduler creates the key on its first boot, and stores it there; nodes read it. Neither
    Terraform's state nor a VM's boot data ever holds it. Nodes have an identity of their own,
    `nodes`: pools of Batch do not read the key. A disk preserves jobs and history if the
    scheduler's VM is replaced.

    Nodes and scheduler reach the vault, whose `id` is also that of this construct, by private
    endpoints, or else from `egress_address`. In a stack with `protect` neither Terraform nor Azure
    deletes vault and disk; `lock` overrides this for Azure.

    >>> slurm = SlurmSharedState(stack, disk_gib=64)
    >>> slurm.private_endpoints(network)
    >>> slurm.nodes.id, slurm.scheduler.client_id
    """

    LINKS: ClassVar = {"-vault": "vault"}

    def __init__(
        self,
        scope: Construct,
        id: str = "slurm",
        *,
        disk_gib: Count,
        egress_address: str = "",
        lock: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.vault = key_vault(
            self,
            "slurm-vault",
            kind="slurm_key_vault",
            kept_days=_KEPT_DAYS,
            ranges=public_ranges((), egress_address),
        )
        self.id = self.vault.id
        self.vault_url = self.vault.vault_uri
        self.scheduler = Identity(self, "slurm-scheduler")
        self.nodes = Identity(self, "slurm-nodes")
        for identity, key, role, what in (
            (self.scheduler, "keep_munge_key", "Officer", "The scheduler makes"),
            (self.nodes, "read_munge_key", "User", "Nodes read"),
        ):
            identity.grant(
                key,
                f"Key Vault Secrets {role}",
                on=self.id,
                reason=f"{what} the munge key, which is all that this vault holds",
            )
        azure = self.azure
        self.disk = ManagedDisk(
            self,
            "slurm-disk",
            name=azure.name("managed_disk", "slurm-scheduler"),
            **azure.common,
            zone=azure.zone_text,
            storage_account_type="Premium_LRS",
            create_option="Empty",
            disk_size_gb=disk_gib,
            network_access_policy="DenyAll",
            public_network_access_enabled=False,
            lifecycle=lifecycle_of(self),
        )
        delete_lock(self, id="slurm-vault", on=self.vault, lock=lock)
        delete_lock(self, id="slurm-disk", on=self.disk, lock=lock)
