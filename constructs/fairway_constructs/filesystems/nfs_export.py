"""A file system that an existing NFS server exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_constructs.filesystems.base import FileSystem
from fairway_core.environment.filesystems.nfs_export import NfsExport as NfsExportSpec

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_core.fields import Count


class NfsExport(FileSystem):
    """A file system that an existing NFS server exports, within reach of the nodes.

    Nothing is created for it in Azure. If it holds runs and homes, all users must be able to create
    a folder in its top folder. `mbps` is the throughput of its server.

    >>> home = NfsExport(stack, "home", path="/home", host="nfs.example.com", export="/srv/home",
    ...                  mbps=2000)
    >>> home.mount, home.throughput_mbps
    """

    def __init__(
        self, scope: Construct, name: str, *, path: str, host: str, export: str, mbps: Count
    ) -> None:
        spec = NfsExportSpec(kind="nfs", path=path, host=host, export=export, mbps=mbps)
        super().__init__(scope, f"nfs-export-{name}", spec)
        self.mount = nfs_mount(name=name, server=spec.host, export=spec.export, path=spec.path)
