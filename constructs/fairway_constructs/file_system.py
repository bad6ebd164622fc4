"""File systems as constructs: their common interface, and blobfuse, which mounts Blob storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init.mounts import Mount
from fairway_core.catalog.tables import look_up
from fairway_core.environment.blobfuse import Blobfuse as BlobfuseSpec

if TYPE_CHECKING:
    from fairway_constructs.azurerm.linux_virtual_machine import LinuxVirtualMachine
    from fairway_constructs.cdk import Construct
    from fairway_constructs.storage import IStorage
    from fairway_core.environment.filesystem_base import FileSystem as FileSystemSpec


class FileSystem(Component):
    """A shared file system, whatever its kind.

    `mount` is how nodes mount it; `throughput_mbps` what it can reach, in MB/s, and `limited_by`
    what keeps it from more. One that a VM serves has it as `virtual_machine`.
    """

    mount: Mount
    virtual_machine: LinuxVirtualMachine | None = None

    def __init__(self, scope: Construct, id: str, spec: FileSystemSpec) -> None:  # noqa: A002
        super().__init__(scope, id)
        self.throughput_mbps = spec.throughput_mbps
        self.limited_by = spec.limited_by


class Blobfuse(FileSystem):
    """A container of `storage` as a folder of nodes, which reach it by their identity.

    Nothing is made for it in Azure: nodes need a role, by `storage.grant_read` or
    `storage.grant_read_write`. Runs are kept elsewhere. Raises UserError for a container that
    `storage` does not have.

    >>> blobs = Blobfuse(stack, "datasets", path="/datasets", storage=storage,
    ...                  container="datasets")  # doctest: +SKIP
    >>> blobs.mount, blobs.throughput_mbps  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        path: str,
        storage: IStorage,
        container: str,
        read_only: bool | None = None,
    ) -> None:
        look_up(container, storage.containers, "container")
        spec = BlobfuseSpec.with_defaults(
            kind="blobfuse", path=path, container=container, read_only=read_only
        )
        super().__init__(scope, f"blobfuse-{name}", spec)
        self.mount = Mount(
            name=name,
            type=spec.mount_type,
            options="ro" if spec.read_only else "rw",
            source=f"{storage.host}/{container}",
            path=spec.path,
        )
