"""Where the homes of an environment's people are, and whether all of its machines see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.filesystems import AnyFileSystem
    from fairway_core.environment.people import Person


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
    _check_sign_in(people, clusters, gateway=gateway)
    partitions = any(cluster.engine == "slurm" for cluster in clusters.values())
    if partitions and home_filesystem(filesystems, clusters) is None:
        raise FieldError(
            "no file system is mounted by all partitions, and so none can hold the homes",
            "name one under `mounts:` of each cluster with `engine: slurm`",
            place,
        )


def _check_sign_in(
    people: Sequence[Person], clusters: Mapping[str, AnyCluster], *, gateway: bool
) -> None:
    """Raises FieldError where somebody could not sign in by Entra ID."""
    for index, person in enumerate(people):
        if person.entra is None:
            continue
        if any(cluster.engine == "slurm" for cluster in clusters.values()):
            raise FieldError(
                f"Entra ID gives `{person.name}` a user id on each machine by itself, and Slurm "
                "needs the same on all",
                "name their `keys:`",
                ("access", "users", index, "entra"),
            )
        if gateway:
            raise FieldError(
                "the gateway lets people in by their keys alone",
                "name their `keys:`",
                ("access", "users", index, "entra"),
            )


def _best(filesystems: Mapping[str, AnyFileSystem], mounts: Sequence[Sequence[str]]) -> str | None:
    common = [name for name in mounts[0] if all(name in each for each in mounts)] if mounts else []
    at_home = [name for name in common if filesystems[name].path == "/home"]
    return next(iter([*at_home, *common]), None)
