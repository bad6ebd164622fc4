"""Homes of users and their queue of runs: the file systems that hold them, and who can have any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.environment.access import Person
    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.filesystems.base import FileSystem


def home_filesystem(
    filesystems: Mapping[str, FileSystem], clusters: Mapping[str, AnyCluster]
) -> str | None:
    """Returns the name of the file system with the homes: of those that all partitions mount, the
    one at /home, or else the first. None if they have none in common."""
    mounts = [cluster.mounts for cluster in clusters.values() if cluster.is_partition]
    return _best(filesystems, mounts)


@dataclass(frozen=True)
class HomeDirectories:
    """The folder of the homes on a machine, and the path of the file system that holds it, or ""
    for the machine's own disk.

    >>> homes = HomeDirectories("/data/home", "/data")
    """

    folder: str = "/home"
    mount: str = ""


def home_directories(
    filesystems: Mapping[str, FileSystem], clusters: Mapping[str, AnyCluster], mounts: Sequence[str]
) -> HomeDirectories:
    """Returns the homes of a machine with these mounts: on the file system of the partitions' homes
    if the machine mounts it, otherwise on one of its own mounts, or on its own disk."""
    shared = home_filesystem(filesystems, clusters)
    name = shared if shared in mounts else _best(filesystems, [mounts])
    if name is None:
        return HomeDirectories()
    path = filesystems[name].path
    return HomeDirectories(path if path == "/home" else f"{path}/home", path)


@dataclass(frozen=True)
class SharedQueue:
    """The queue of all users' runs for a cluster's nodes: a `folder` owned by the machines, on the
    file system at `mount`, or on the own disk of a single machine if that is "".

    >>> queue = SharedQueue("pair", "/data/queue", "/data")
    """

    cluster: str
    folder: str
    mount: str = ""


def shared_queue(
    filesystems: Mapping[str, FileSystem], name: str, cluster: AnyCluster
) -> SharedQueue:
    """Returns the queue of a cluster without a scheduler, on its first mounted file system."""
    if cluster.is_single:
        return SharedQueue(name, "/var/lib/fairway-queue")
    path = filesystems[cluster.mounts[0]].path
    return SharedQueue(name, f"{path}/fairway-queue", path)


def check_people(
    people: Sequence[Person],
    filesystems: Mapping[str, FileSystem],
    clusters: Mapping[str, AnyCluster],
    *,
    gateway: bool,
) -> None:
    """Raises FieldError if people cannot have accounts, or homes that all nodes see."""
    if not people:
        return
    path = ("access", "users")
    if not gateway and not any(cluster.takes_logins for cluster in clusters.values()):
        raise FieldError(
            "nobody logs in to nodes of Batch or Kubernetes: no machine would have these accounts",
            "let them submit by `access: {researchers: [OBJECT ID]}`",
            path,
        )
    _check_sign_in(people, clusters, gateway=gateway)
    partitions = any(cluster.is_partition for cluster in clusters.values())
    if partitions and home_filesystem(filesystems, clusters) is None:
        raise FieldError(
            "no file system is mounted by all partitions, so none can hold the home directories",
            "mount one file system in each cluster with `engine: slurm`, under `mounts:`",
            path,
        )


def _check_sign_in(
    people: Sequence[Person], clusters: Mapping[str, AnyCluster], *, gateway: bool
) -> None:
    """Raises FieldError if a person could not sign in with Entra ID."""
    for index, person in enumerate(people):
        if person.entra is None:
            continue
        several = [
            name for name, each in clusters.items() if each.takes_logins and not each.is_single
        ]
        if several:
            raise FieldError(
                f"Entra ID gives `{person.name}` a different user id on each machine, and "
                f"all nodes of `{several[0]}` need the same",
                "use `keys:` for them",
                ("access", "users", index, "entra"),
            )
        if gateway:
            raise FieldError(
                "the gateway accepts only keys",
                "use `keys:` for them",
                ("access", "users", index, "entra"),
            )


def _best(filesystems: Mapping[str, FileSystem], mounts: Sequence[Sequence[str]]) -> str | None:
    common = [name for name in mounts[0] if all(name in each for each in mounts)] if mounts else []
    common = [name for name in common if filesystems[name].holds_runs]
    at_home = [name for name in common if filesystems[name].path == "/home"]
    return next(iter([*at_home, *common]), None)
