"""Targets of jobs: an output about clusters that `fairway targets sync` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fairway_constructs.cdk import Component, Output, surroundings
from fairway_constructs.cloud_init import ADMIN_USERNAME, LOCAL_FOLDER, shared_folder
from fairway_core.target import SshAccess, StorageAccount, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init import Mount
    from fairway_constructs.gpu_cluster import GpuCluster
    from fairway_constructs.single_vm import SingleVm
    from fairway_constructs.storage import IStorage
    from fairway_constructs.vault import IVault


@runtime_checkable
class TakesJobs(Protocol):
    """A construct to which jobs come, such as a `Cluster`."""

    def target(self, *, storage: StorageAccount | None = None, vault_url: str = "") -> Target:
        """Facts about the cluster that jobs need."""


class Targets(Component):
    """The output `targets` of a stack: how jobs get to its clusters, and what they find there.

    `storage` is where jobs stage what they read and write, and `vault` has their secrets; give the
    clusters roles on both.

    >>> Targets(stack, [h100], storage=storage)  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        clusters: Sequence[TakesJobs | Target],
        *,
        storage: IStorage | None = None,
        vault: IVault | None = None,
    ) -> None:
        super().__init__(scope, "job-targets")
        account = storage_of(storage) if storage else None
        url = vault.url if vault else ""
        self.targets = [
            each if isinstance(each, Target) else each.target(storage=account, vault_url=url)
            for each in clusters
        ]
        Output(
            surroundings(self).stack,
            "targets",
            value=[each.record() for each in self.targets],
            description="Job targets, read by `fairway targets sync`",
            static_id=True,
        )


def storage_of(storage: IStorage) -> StorageAccount:
    """The account as jobs know it."""
    return StorageAccount(account_url=storage.account_url, containers=tuple(storage.containers))


def ssh_access(
    cluster: GpuCluster | SingleVm,
    mounts: Sequence[Mount],
    *,
    keeps_disks: bool,
    queue: str | None = None,
) -> SshAccess:
    """Access to a cluster by its first node. With `keeps_disks` its machines keep disks while
    stopped; people's runs wait in `queue`."""
    shared = shared_folder(mounts)
    return SshAccess(
        host=cluster.main_host,
        user=ADMIN_USERNAME,
        shared=shared or LOCAL_FOLDER,
        # Without a folder that they share, what is on the first node is nowhere else.
        others=tuple(cluster.other_hosts) if shared else (),
        machines=cluster.id if keeps_disks else "",
        queue=queue,
    )
