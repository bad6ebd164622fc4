"""Needs of an environment's file systems: subnets, keys, and clusters that can mount them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_core.environment.addresses import SUBNETS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.filesystems import AnyFileSystem
    from fairway_core.environment.filesystems.base import EnvironmentParts, FileSystem

HOME = "/home"


def dedicated_subnets(filesystems: Mapping[str, FileSystem]) -> frozenset[str]:
    """Returns the subnet roles that only some kinds of file systems need: `netapp`, `lustre`."""
    roles = (each.subnet_role for each in filesystems.values())
    return frozenset(role for role in roles if role and SUBNETS[role].filesystem)


def uses_nfs3(filesystems: Mapping[str, FileSystem]) -> bool:
    """Returns True if a server offers NFS 3, which needs several ports."""
    return any(3 in each.nfs_versions for each in filesystems.values())


def scheduler_mounts(
    filesystems: Mapping[str, AnyFileSystem], clusters: Mapping[str, AnyCluster]
) -> dict[str, AnyFileSystem]:
    """Returns the file systems that Slurm's scheduler and login nodes mount: all that its nodes
    mount except blob containers, which only the nodes' identity can read."""
    slurm = (each for each in clusters.values() if each.is_partition)
    mounts = (name for each in slurm for name in each.mounts)
    return {
        name: filesystems[name]
        for name in dict.fromkeys(mounts)
        if not filesystems[name].is_container
    }


def check_filesystems(parts: EnvironmentParts) -> None:
    """Raises FieldError if the rest of the environment cannot do what its file systems need; the
    names under `mounts:` are known."""
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
            if filesystem.path == HOME and cluster.hides_home:
                raise FieldError(
                    f"a mount on {HOME} would hide the home directories of Batch's users",
                    f"give `{mount}` another path, or leave it out here",
                    path,
                )


def _check_roles(parts: EnvironmentParts, roles: Collection[str]) -> None:
    """Raises FieldError with all required subnets that the existing network lacks."""
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
