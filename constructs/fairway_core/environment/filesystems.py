"""The shared file systems of an environment, by kind, and what they ask of the rest of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fairway_core.documents import FieldError
from fairway_core.environment.addresses import SUBNETS
from fairway_core.environment.blobfuse import Blobfuse
from fairway_core.environment.filesystems_managed import AzureFiles, Lustre, NetApp
from fairway_core.environment.nfs_server import NfsServer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.filesystem_base import EnvironmentParts, FileSystem

AnyFileSystem = Annotated[
    NfsServer | AzureFiles | NetApp | Lustre | Blobfuse, Field(discriminator="kind")
]

HOME = "/home"


def optional_roles(filesystems: Mapping[str, FileSystem]) -> frozenset[str]:
    """The subnets that only some kinds of file systems need: `netapp`, `lustre`."""
    roles = (each.subnet_role for each in filesystems.values())
    return frozenset(role for role in roles if role and SUBNETS[role].filesystem)


def speaks_nfs_3(filesystems: Mapping[str, FileSystem]) -> bool:
    """True if a server offers NFS 3, which needs several ports."""
    return any(3 in each.nfs_versions for each in filesystems.values())


def scheduler_mounts(
    filesystems: Mapping[str, AnyFileSystem], clusters: Mapping[str, AnyCluster]
) -> dict[str, AnyFileSystem]:
    """The file systems that the scheduler and login nodes of Slurm mount: all that its nodes do,
    but for blobs, which only the identity of nodes reads."""
    slurm = (each for each in clusters.values() if each.engine == "slurm")
    mounts = (name for each in slurm for name in each.mounts)
    return {
        name: filesystems[name]
        for name in dict.fromkeys(mounts)
        if not filesystems[name].is_container
    }


def check_filesystems(parts: EnvironmentParts) -> None:
    """Raises FieldError where the rest of the environment cannot do what its file systems need.

    The names under `mounts:` of the clusters are known to be right.
    """
    filesystems, network = parts.filesystems, parts.network
    if network.existing:
        _check_roles(parts, network.existing.subnets.by_role)
    for name, filesystem in filesystems.items():
        filesystem.check(name, parts)
    keys_are_used = any(each.imported for each in filesystems.values())
    if parts.storage.account_keys and not keys_are_used:
        raise FieldError(
            "nothing in the environment needs the account's keys",
            "leave it out",
            ("storage", "account_keys"),
        )
    for name, cluster in parts.clusters.items():
        for index, mount in enumerate(cluster.mounts):
            filesystem, path = filesystems[mount], ("clusters", name, "mounts", index)
            filesystem.check_mount(cluster, path)
            if filesystem.path == HOME and cluster.engine == "batch":
                raise FieldError(
                    f"a mount on {HOME} would hide the home directories of Batch's users",
                    f"give `{mount}` another path, or leave it out here",
                    path,
                )


def _check_roles(parts: EnvironmentParts, roles: Collection[str]) -> None:
    """Raises FieldError with all the subnets that the environment needs and the network lacks."""
    missing: dict[str, list[str]] = {}
    for name, filesystem in parts.filesystems.items():
        role = filesystem.subnet_role
        if role and role not in roles:
            missing.setdefault(role, []).append(f"`{name}`")
    if parts.network.private_endpoints and "endpoints" not in roles:
        missing["endpoints"] = ["private endpoints"]
    if missing:
        hint = f"add {', '.join(f'`{role}:`' for role in missing)}"
        if "endpoints" in missing:
            hint += "; without private endpoints: `private_endpoints: false` under `network:`"
        needs = ", ".join(need for each in missing.values() for need in each)
        path = ("network", "existing", "subnets")
        raise FieldError(f"no subnet for {needs}", hint, path)
