"""A container of Blob storage, which nodes mount with blobfuse2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fairway_core.documents import FieldError
from fairway_core.environment.filesystems.base import EnvironmentParts, FileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.yaml_text import DataPath

# 50 Gb/s: the egress limit of an account in every region; some allow 200. Source: Azure
# documentation, scalability and performance targets for standard storage accounts.
_ACCOUNT_MBPS = 6250

_OTHER = 'stage it with the job: `inputs: {{NAME: {{from: "{}:PATH", stage: scratch}}}}`'


class Blobfuse(FileSystem, defer_build=True):
    """A container of Blob storage, as a folder of nodes of all engines but `kubernetes`.

    Nodes read it by their managed identity, whole files at a time, into a cache on their local
    disks. It has no locks and no owners, so it is for data sets and not for homes or runs: only a
    single node with `engine: ssh` may mount it first.
    """

    kind: Literal["blobfuse"]
    """`blobfuse`: a container of the storage account."""
    container: str
    """The container, under `storage.containers:`."""
    read_only: bool = True
    """Mount the container read-only. A file that is written gets there when it is closed; of
    several nodes that write the same one, the last wins."""

    mount_type = "blobs"
    egress = ("blobfuse",)
    holds_runs = False
    is_container = True

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput of the account in MB/s, for all nodes together."""
        return {"its storage account": _ACCOUNT_MBPS}

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError if the container is missing, blobfuse2 cannot be installed, or the path
        is /home."""
        path = ("filesystems", name)
        parts.storage.check_container(self.container, (*path, "container"))
        if parts.network.is_closed:
            raise FieldError(
                "nodes install blobfuse2 from the internet, which `egress: none` closes",
                f"use another `egress:`, or {_OTHER.format(self.container)}",
                path,
            )
        if self.path == "/home":
            raise FieldError(
                "blobs have no owners and no locks, and cannot be the home directories",
                "use another path, or another kind of file system",
                (*path, "path"),
            )

    def check_mount(self, cluster: AnyCluster, path: DataPath) -> None:
        """Raises FieldError if the engine or the image cannot mount it, or if it would hold the
        runs."""
        image = cluster.chosen_image
        if image is None:
            raise FieldError(
                "nodes of Kubernetes cannot mount a container",
                f"leave it out here, and {_OTHER.format(self.container)}",
                path,
            )
        if path[-1] == 0 and not cluster.is_single:
            raise FieldError(
                "runs are kept on the first file system, and blobs have no locks",
                "mount another kind before it, such as an `nfs_server`",
                path,
            )
        if image.nfs_client_package != "nfs-common":
            raise FieldError(
                f"blobfuse2 is installed on Ubuntu alone, and image `{image.alias}` "
                "is another system",
                "use `image: ubuntu-hpc-2404`",
                path,
            )
