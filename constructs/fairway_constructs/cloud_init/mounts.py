"""How nodes mount shared file systems, whatever kind these are."""

from __future__ import annotations

from dataclasses import dataclass

# nconnect spreads one mount over eight connections. Source: Azure's NFS guidance for HPC clients.
_NFS = "rw,hard,vers={version},proto=tcp,rsize=262144,wsize=262144,nconnect=8,_netdev,noatime"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """What `mount` needs: `type`, `options`, `source` (which may hold a reference), `path`.

    With `root` the root of a node is root there too, and opens its top folder to every user;
    otherwise the server has done so, and refuses root.
    """

    name: str
    type: str
    options: str
    source: str
    path: str
    root: bool = False

    @property
    def holds_runs(self) -> bool:
        """True for a file system with the locks and owners that runs need: blobs have neither."""
        return self.type != "blobs"

    @property
    def nfs_3(self) -> bool:
        """Whether it is NFS 3, whose locks come back over ports of their own."""
        return self.type == "nfs" and "vers=3" in self.options.split(",")


def nfs_mount(
    *, name: str, server: str, export: str, path: str, version: float = 4.1, root: bool = False
) -> Mount:
    """A mount of an NFS server: `server` is an address or a reference to one.

    >>> nfs_mount(name="data", server="10.0.0.4", export="/srv/data", path="/data").source
    '10.0.0.4:/srv/data'
    """
    return Mount(
        name=name,
        type="nfs",
        options=_NFS.format(version=f"{version:g}"),
        source=f"{server}:{export}",
        path=path,
        root=root,
    )
