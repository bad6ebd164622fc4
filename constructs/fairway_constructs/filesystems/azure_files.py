"""A Premium Azure file share over NFS 4.1, closed to all networks except the environment's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.azurerm.storage_account import StorageAccount
from fairway_constructs.azurerm.storage_share import StorageShare
from fairway_constructs.cloud_init.mounts import Mount
from fairway_constructs.filesystems.base import FileSystem
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import client_config
from fairway_constructs.service import Diagnostics, Service
from fairway_constructs.storage import access_arguments, encrypted_by, sign_in
from fairway_core.environment.filesystems.azure_files import AzureFiles as AzureFilesSpec
from fairway_core.naming import unique_suffix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.filesystems.base import Site
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.vault import CustomerManagedKey
    from fairway_core.fields import Count

# Source: Azure documentation, mount an NFS Azure file share on Linux.
_OPTIONS = "vers=4,minorversion=1,sec=sys,nconnect=4,_netdev,noatime"


class AzureFiles(FileSystem, Service):
    """A file share in a storage account of its own, which accepts neither keys nor tokens.

    NFS has no identities: anyone who reaches the share may use it, so it is only reached by private
    endpoints, or from `subnets`. In a stack with `protect` neither Terraform nor Azure deletes
    it; `lock` overrides this for Azure. With `customer_managed_key` that key encrypts the account.

    >>> files = AzureFiles(stack, "home", path="/home")
    >>> files.private_endpoints(network)
    >>> files.mount, files.throughput_mbps
    """

    LINKS: ClassVar = {"": "file"}
    # Source: Azure Monitor, supported logs of Microsoft.Storage/storageAccounts/fileServices.
    # Logging each read and write of a file would cost more than it is worth.
    DIAGNOSTICS = Diagnostics(part="/fileServices/default", categories=("StorageDelete",))

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        path: str,
        gib: Count | None = None,
        replication: Literal["LRS", "ZRS"] | None = None,
        subnets: Sequence[SubnetRef] = (),
        customer_managed_key: CustomerManagedKey | None = None,
        lock: bool | None = None,
    ) -> None:
        spec = AzureFilesSpec.with_defaults(
            kind="azure_files", path=path, gib=gib, replication=replication
        )
        super().__init__(scope, f"files-{name}", spec)
        azure = self.azure
        id = f"files-{name}-account"
        suffix = unique_suffix(client_config(self).subscription_id, f"{azure.environment}-{id}")
        self.account = StorageAccount(
            self,
            id,
            name=azure.name("file_storage_account", suffix=suffix),
            **azure.common,
            account_kind="FileStorage",
            account_tier="Premium",
            account_replication_type=spec.copies(azure.zone),
            **sign_in(account_keys=False),
            # NFS does not use HTTPS: if that is required, Azure refuses every mount.
            https_traffic_only_enabled=False,
            **encrypted_by(customer_managed_key),
            **access_arguments(subnets),
            lifecycle=lifecycle_of(self),
        )
        self.id = account_id = self.account.id
        self.share = StorageShare(
            self,
            f"files-{name}-share",
            name=azure.name("storage_share", name),
            storage_account_id=account_id,
            enabled_protocol="NFS",
            quota=spec.gib,
            lifecycle=lifecycle_of(self),
        )
        delete_lock(self, id=id, on=self.account, lock=lock)
        self.mount = Mount(
            name=name,
            type="nfs",
            options=_OPTIONS,
            source=f"{self.account.primary_file_host}:/{self.account.name}/{self.share.name}",
            path=spec.path,
            root=True,
        )

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        # Without an endpoint of its own the network gets access by its subnets.
        roles = () if site.network.endpoints else site.node_roles
        return {**section, "subnets": [site.network.subnets[role] for role in roles]}
