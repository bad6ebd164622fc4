"""An Azure NetApp Files volume over NFS 4.1, exported to named ranges only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fairway_constructs.azurerm.netapp_account import NetappAccount
from fairway_constructs.azurerm.netapp_pool import NetappPool
from fairway_constructs.azurerm.netapp_volume import ExportPolicyRule, NetappVolume
from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_constructs.filesystems.base import FileSystem
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import once
from fairway_constructs.service import Diagnostics, Service
from fairway_core.environment.filesystems.netapp import NetApp as NetAppSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.filesystems.base import Site
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.fields import Count


class NetApp(FileSystem, Service):
    """A volume with a capacity pool of its own, in the environment's NetApp account.

    Its subnet is delegated to Microsoft.NetApp/volumes. In Azure only root can write to a new
    volume: so root of `clients` is root there, and opens it to every user on the first mount.
    `clients` defaults to the ranges of nodes in that network. In a stack with `protect` neither
    Terraform nor Azure deletes the volume; `lock` overrides this for Azure. Before
    `diagnostic_settings` register the feature of file access logs in the subscription.

    >>> volume = NetApp(stack, "data", subnet=network.subnet("netapp"),
    ...                 path="/data", tib=4)
    >>> volume.mount, volume.throughput_mbps
    """

    # Accesses to files: only in some regions, with a feature of the subscription and audit entries
    # on folders. Source: Azure documentation, "Manage file access logs in Azure NetApp Files".
    DIAGNOSTICS = Diagnostics(categories=("ANFFileAccess",), metrics=True, usual=False)

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        path: str,
        service_level: Literal["Standard", "Premium", "Ultra", "Flexible"] | None = None,
        tib: Count | None = None,
        mibps: Count | None = None,
        subnet: SubnetRef,
        clients: Sequence[IPv4Network] | None = None,
        lock: bool | None = None,
    ) -> None:
        spec = NetAppSpec.with_defaults(
            kind="netapp", path=path, service_level=service_level, tib=tib, mibps=mibps
        )
        super().__init__(scope, f"netapp-{name}", spec)
        folder = self.azure.name("netapp_volume_path", name)
        self.volume = self._volume(name, spec, folder, subnet.id, subnet.clients(clients))
        self.id = self.volume.id
        delete_lock(self, id=f"netapp-{name}-volume", on=self.volume, lock=lock)
        self.mount = nfs_mount(
            name=name,
            server=self.volume.reference("mount_target[0].ip_address"),
            export=f"/{folder}",
            path=spec.path,
            root=True,
        )

    def _volume(
        self,
        name: str,
        spec: NetAppSpec,
        folder: str,
        subnet_id: str,
        clients: Sequence[IPv4Network],
    ) -> NetappVolume:
        azure = self.azure
        # Created for the first volume: a region allows only a few.
        account_name = once(
            self,
            "netapp",
            lambda scope, key: NetappAccount(
                scope, key, name=azure.name("netapp_account"), **azure.common
            ),
        ).name
        pool = NetappPool(
            self,
            f"netapp-{name}-pool",
            name=azure.name("netapp_pool", name),
            **azure.common,
            account_name=account_name,
            service_level=spec.service_level,
            size_in_tb=spec.tib,
            qos_type="Manual" if spec.mibps else "Auto",
            custom_throughput_mibps=spec.mibps,
        )
        return NetappVolume(
            self,
            f"netapp-{name}-volume",
            name=azure.name("netapp_volume", name),
            **azure.common,
            zone=azure.zone_text,
            account_name=account_name,
            pool_name=pool.name,
            volume_path=folder,
            service_level=spec.service_level,
            storage_quota_in_gb=spec.tib * 1024,
            throughput_in_mibps=spec.mibps,
            subnet_id=subnet_id,
            # Security groups only apply to it with these.
            network_features="Standard",
            protocols=["NFSv4.1"],
            security_style="unix",
            snapshot_directory_visible=False,
            export_policy_rule=[
                ExportPolicyRule(
                    rule_index=1,
                    allowed_clients=[str(network) for network in clients],
                    protocol=["NFSv4.1"],
                    unix_read_write=True,
                    root_access_enabled=True,
                )
            ],
            lifecycle=lifecycle_of(self),
        )

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        return {**section, "clients": site.clients}
