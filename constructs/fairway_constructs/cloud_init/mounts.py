"""Mounts of shared file systems on machines, and the proxy by which machines reach the internet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from pydantic import AfterValidator

from fairway_constructs.arguments import checked
from fairway_core.documents import FieldError
from fairway_core.environment.values import are_nested

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network

    from fairway_core.environment import Proxy


# nconnect spreads one mount over eight connections. Source: Azure's NFS guidance for HPC clients.
_NFS = "rw,hard,vers={version},proto=tcp,rsize=262144,wsize=262144,nconnect=8,_netdev,noatime"


@checked
@dataclass(frozen=True, kw_only=True)
class Mount:
    """Arguments of `mount`: `type`, `options`, `source` (which may hold a reference), `path`.

    With `root` the root of a node is root there too, and opens its top folder to every user;
    otherwise the server has done so, and refuses root.

    >>> Mount(name="home", type="nfs", options="vers=4.1,hard", source="nfs.example.com:/srv/home",
    ...       path="/home")
    """

    name: str
    type: str
    options: str
    source: str
    path: str
    root: bool = False

    @property
    def mount(self) -> Mount:
        """The mount itself, where a file system fits too."""
        return self

    @property
    def holds_runs(self) -> bool:
        """True for a file system with the locks and owners that runs need: blobs have neither."""
        return self.type != "blobs"

    @property
    def nfs_3(self) -> bool:
        """True for NFS 3, whose lock callbacks use separate ports."""
        return self.type == "nfs" and "vers=3" in self.options.split(",")


@runtime_checkable
class Mounted(Protocol):
    """A file system of machines, such as an `NfsServer`, or its `Mount`.

    >>> home.mount
    """

    @property
    def mount(self) -> Mount:
        """The arguments by which machines mount it."""


def _each_elsewhere(mounts: Sequence[Mounted]) -> Sequence[Mounted]:
    """Returns the mounts. Raises FieldError if one would hide another, or has the same name."""
    for one, other in combinations([each.mount for each in mounts], 2):
        if one.name == other.name:
            raise FieldError(f"two are called `{one.name}`", "give one of them another name")
        if are_nested(one.path, other.path):
            raise FieldError(
                f"`{other.path}` and `{one.path}` of `{one.name}` are inside each other",
                "give each file system a path of its own",
            )
    return mounts


Mounts = Annotated[Sequence[Mounted], AfterValidator(_each_elsewhere)]


def mounts_of(filesystems: Mounts) -> list[Mount]:
    """Returns the mount of each."""
    return [each.mount for each in filesystems]


def nfs_mount(
    *, name: str, server: str, export: str, path: str, version: float = 4.1, root: bool = False
) -> Mount:
    """Returns a mount of an NFS server: `server` is an address or a reference to one.

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


# The machine itself, and Azure's services for it: the metadata service, and the platform's (DNS,
# DHCP, health). Source: Azure documentation, "Azure Instance Metadata Service" (proxies are not
# supported) and "What is IP address 168.63.129.16".
_ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1", "169.254.169.254", "168.63.129.16")


@checked
@dataclass(frozen=True, kw_only=True)
class MachineProxy:
    """Proxies of a machine, and the hosts that it reaches directly; names may be references.

    >>> MachineProxy(http="http://p:80", https="http://p:80", direct=("10.0.0.0/16",)).variables[
    ...     "no_proxy"]
    '10.0.0.0/16'
    """

    http: str
    https: str
    direct: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for programs: some read only upper case, and others lower case."""
        known = {
            "http_proxy": self.http,
            "https_proxy": self.https,
            "no_proxy": ",".join(self.direct),
        }
        return known | {name.upper(): text for name, text in known.items()}

    def past(self, hosts: Iterable[str]) -> MachineProxy:
        """Returns a copy that also reaches these hosts directly."""
        return replace(self, direct=tuple(dict.fromkeys([*self.direct, *hosts])))


def machine_proxy(spec: Proxy | None, ranges: Iterable[IPv4Network]) -> MachineProxy | None:
    """Returns the proxy of an environment's machines, which are in these ranges, or None."""
    if spec is None:
        return None
    direct = [*_ALWAYS_DIRECT, *map(str, ranges), *spec.no_proxy]
    return MachineProxy(
        http=spec.http, https=spec.https or spec.http, direct=tuple(dict.fromkeys(direct))
    )
