"""The people of an environment, each with an account of their own on its machines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.environment.filesystems import AnyFileSystem
    from fairway_core.environment.model import AnyCluster

# Above what Azure and Ubuntu give to accounts, and below what systemd takes for its own.
FIRST_UID, LAST_UID = 20_000, 59_999

# Accounts and groups of the images, of Slurm and of what the nodes install. One that is missing
# here is found by a machine when it boots: it makes no account then, and says so.
_TAKEN = frozenset(
    {"root", "all", "none", "azureuser", "ubuntu", "admin", "sudo", "wheel", "docker", "fairway"}
    | {"slurm", "munge", "mysql", "mariadb", "statd", "sshd", "syslog", "nobody", "nogroup"}
    | {"daemon", "bin", "sys", "adm", "tty", "disk", "sync", "games", "man", "lp", "mail", "news"}
    | {"uucp", "proxy", "www-data", "backup", "list", "irc", "users", "staff", "shadow", "kmem"}
    | {"video", "audio", "render", "input", "kvm", "plugdev", "netdev", "tape", "dialout", "crypto"}
    | {"messagebus", "systemd-network", "systemd-resolve", "systemd-timesync", "tcpdump", "chrony"}
    | {"landscape", "pollinate", "lxd", "tss", "uuidd", "dcgm", "nvidia-persistenced", "rpc", "ftp"}
)
_NAME = r"^[a-z][a-z0-9_-]{0,30}$"


def _free_name(name: str) -> str:
    if name in _TAKEN:
        raise FieldError(f"`{name}` is an account or a group of the machines' own")
    return name


class Person(Model, defer_build=True):
    """A person's account on the login host, the scheduler and the nodes, in a group of its own.

    The home is on the shared file system, closed to others.
    """

    name: Annotated[str, Field(pattern=_NAME), AfterValidator(_free_name)]
    """The account's name: small letters, digits, hyphens and underscores, first a letter."""
    keys: tuple[str, ...] = Field(min_length=1)
    """Public SSH keys, or paths of files that hold them."""
    admin: bool = False
    """Whether the account may use sudo, and so reach everybody's data and Slurm's key."""
    uid: int | None = Field(default=None, ge=FIRST_UID, le=LAST_UID)
    """The number to which files belong, the same on every machine; by default it follows from
    the name, and stays when others come and go."""

    @property
    def number(self) -> int:
        """The user id, and that of the group.

        >>> Person(name="ada", keys=["ssh-ed25519 AAAA"]).number
        30398
        """
        if self.uid is not None:
            return self.uid
        digest = hashlib.sha256(self.name.encode()).digest()
        return FIRST_UID + int.from_bytes(digest[:8], "big") % (LAST_UID - FIRST_UID + 1)


def apart(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """The people; FieldError where two of them have one name, or one number."""
    for index, person in enumerate(people):
        for other in people[:index]:
            if other.name == person.name:
                raise FieldError(f"`{person.name}` is there twice", "name it once", (index, "name"))
            if other.number == person.number:
                raise FieldError(
                    f"`{person.name}` and `{other.name}` have the user id {person.number}",
                    f"give one of them another, for example `uid: {FIRST_UID + 1}`",
                    (index, "uid" if person.uid is not None else "name"),
                )
    return people


People = Annotated[tuple[Person, ...], AfterValidator(apart)]


def home_filesystem(
    filesystems: Mapping[str, AnyFileSystem], clusters: Mapping[str, AnyCluster]
) -> str | None:
    """The file system with the homes, by name: of those that all partitions mount the one at
    /home, or else the first; None where there is none."""
    mounts = [cluster.mounts for cluster in clusters.values() if cluster.engine == "slurm"]
    return _best(filesystems, mounts)


@dataclass(frozen=True)
class Homes:
    """The folder of the homes on a machine, and the path of the file system that it is on: "" for
    the machine's own disk."""

    folder: str = "/home"
    mount: str = ""


def homes(
    filesystems: Mapping[str, AnyFileSystem],
    clusters: Mapping[str, AnyCluster],
    mounts: Sequence[str],
) -> Homes:
    """Where the homes are on a machine with these mounts: where the partitions have them,
    wherever that is mounted."""
    shared = home_filesystem(filesystems, clusters)
    name = shared if shared in mounts else _best(filesystems, [mounts])
    if name is None:
        return Homes()
    path = filesystems[name].path
    return Homes(path if path == "/home" else f"{path}/home", path)


def check_people(
    people: Sequence[Person],
    filesystems: Mapping[str, AnyFileSystem],
    clusters: Mapping[str, AnyCluster],
    *,
    gateway: bool,
) -> None:
    """Raises FieldError where people cannot have accounts, or homes that all nodes see."""
    if not people:
        return
    place = ("access", "users")
    if not gateway and all(cluster.engine == "batch" for cluster in clusters.values()):
        raise FieldError(
            "nobody logs in to nodes of Batch: there is no machine for these accounts",
            "let them submit by `access: {researchers: [OBJECT ID]}`",
            place,
        )
    for name, cluster in clusters.items():
        if cluster.engine == "ssh" and cluster.node_range.max > 1:
            raise FieldError(
                f"`{name}` lends its nodes to one account, as nothing queues the jobs of several",
                "take `engine: slurm` for it, or leave `users:` out",
                place,
            )
    partitions = any(cluster.engine == "slurm" for cluster in clusters.values())
    if partitions and home_filesystem(filesystems, clusters) is None:
        raise FieldError(
            "no file system is mounted by all partitions, and so none can hold the homes",
            "name one under `mounts:` of each cluster with `engine: slurm`",
            place,
        )


def _best(filesystems: Mapping[str, AnyFileSystem], mounts: Sequence[Sequence[str]]) -> str | None:
    common = [name for name in mounts[0] if all(name in each for each in mounts)] if mounts else []
    at_home = [name for name in common if filesystems[name].path == "/home"]
    return next(iter([*at_home, *common]), None)
