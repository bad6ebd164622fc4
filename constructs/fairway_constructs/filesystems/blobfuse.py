"""A container of Blob storage as a folder of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.cloud_init.mounts import Mount
from fairway_constructs.filesystems.base import FileSystem
from fairway_core.catalog.tables import look_up
from fairway_core.environment.filesystems.blobfuse import Blobfuse as BlobfuseSpec

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.filesystems.base import Site
    from fairway_constructs.storage import IStorage


class Blobfuse(FileSystem):
    """A container of `storage` as a folder of nodes, which access it by their identity.

    Nothing is created for it in Azure: nodes need a role, by `storage.grant_read` or
    `storage.grant_read_write`. It cannot hold runs. Raises UserError for a container that `storage`
    does not have.

    >>> blobs = Blobfuse(stack, "datasets", path="/datasets", storage=storage,
    ...                  container="datasets")
    >>> blobs.mount, blobs.throughput_mbps
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

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        return {**section, "storage": site.storage}
