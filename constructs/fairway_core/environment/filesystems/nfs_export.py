"""An export of an existing NFS server, in a network that nodes reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fairway_core.documents import FieldError, matching
from fairway_core.environment.filesystems.base import EnvironmentParts, FileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

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
