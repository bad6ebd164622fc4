"""A file system that an existing NFS server exports, in a network within reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fairway_core.documents import FieldError, matching, written_as
from fairway_core.environment.filesystem_base import EnvironmentParts, FileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

# Both become words of a line that nodes read: nothing that ends a word or a line.
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_EXPORT = r"/([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?"
_LIMIT = "its server"

Host = Annotated[
    str,
    matching(_HOST, "`{}` is neither a name nor an IPv4 address", "for example nfs.example.com"),
    written_as(_HOST),
]
ExportedPath = Annotated[
    str,
    matching(
        _EXPORT,
        "`{}` is not the path of an export",
        "letters, digits, dots, hyphens and underscores between slashes: /srv/data",
    ),
    written_as(_EXPORT),
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
        """Nothing but that it is there."""
        return ("NFS server, existing",)

    @property
    def size_gib(self) -> int:
        """A number for Kubernetes, which wants one and compares it with nothing."""
        return 1

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """MB/s of the server."""
        return {_LIMIT: self.mbps}

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError where nodes are in a network of their own without a way out but to the
        internet, over which nobody mounts NFS."""
        if not (parts.network.existing or parts.network.peerings):
            raise FieldError(
                f"`{self.host}` is in no connected network",
                "name its network under `network: {peerings: …}`, or use an existing network",
                ("filesystems", name, "host"),
            )
