"""File systems that are no resources of their own: exports of existing NFS servers in a reachable
network, and Blob storage containers that nodes mount with blobfuse2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fairway_core.documents import FieldError, matching
from fairway_core.environment.filesystem_base import EnvironmentParts, FileSystem
from fairway_core.environment.kubernetes import KubernetesNodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.yaml_text import DataPath

_LIMIT = "its server"

# Nodes read both as fields of a line, so neither has a space or a line break.
Host = Annotated[
    str,
    matching(
        r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?",
        "`{}` is neither a name nor an IPv4 address",
        "for example nfs.example.com",
        in_schema=True,
    ),
]
ExportedPath = Annotated[
    str,
    matching(
        r"/([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?",
        "`{}` is not the path of an export",
        "letters, digits, dots, hyphens and underscores between slashes: /srv/data",
        in_schema=True,
    ),
]


class NfsExport(FileSystem, defer_build=True):
    """An existing file system, over NFS 4.1: of a server of your own, or a volume of
    NetApp Files or a share of Azure Files that another environment has made.

    It is in an existing network, or in one of `network.peerings`. Nothing of it is made, protected
    or deleted here. To keep runs and homes on it, everybody must be able to make a folder in its
    top folder, as in /tmp.
    """

    kind: Literal["nfs"]
    """`nfs`: an existing NFS server."""
    host: Host
    """The name or address of the server, as nodes see it."""
    export: ExportedPath
    """The path that the server exports."""
    mbps: int = Field(ge=1)
    """Throughput of the server in MB/s; the check `starved-gpus` compares it with the GPUs."""

    raised_by: ClassVar = {_LIMIT: "raise `mbps:` if it gives more"}

    @property
    def source(self) -> str:
        """The server and its export, as mount(8) takes them."""
        return f"{self.host}:{self.export}"

    @property
    def facts(self) -> tuple[str, ...]:
        """Its kind alone: nothing else is known of an existing server."""
        return ("NFS server, existing",)

    @property
    def size_gib(self) -> int:
        """A placeholder for Kubernetes, which requires a size and ignores it."""
        return 1

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput of the server in MB/s."""
        return {_LIMIT: self.mbps}

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError if the nodes' network is connected to no other but the internet, over
        which NFS is never mounted."""
        if not (parts.network.existing or parts.network.peerings):
            raise FieldError(
                f"`{self.host}` is in no connected network",
                "name its network under `network: {peerings: …}`, or use an existing network",
                ("filesystems", name, "host"),
            )


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
        if isinstance(cluster, KubernetesNodes):
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
        if cluster.chosen_image.nfs_client_package != "nfs-common":
            raise FieldError(
                f"blobfuse2 is installed on Ubuntu alone, and image `{cluster.chosen_image.alias}` "
                "is another system",
                "use `image: ubuntu-hpc-2404`",
                path,
            )
