"""The shared file systems of an environment, by kind, and what they ask of the rest of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fairway_core.catalog.lustre import lustre_addresses
from fairway_core.documents import FieldError
from fairway_core.environment.addresses import subnet_plan
from fairway_core.environment.batch import BatchCluster
from fairway_core.environment.filesystems_managed import AzureFiles, Lustre, NetApp
from fairway_core.environment.kubernetes import KubernetesNodes
from fairway_core.environment.nfs_server import NfsServer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.network import Network
    from fairway_core.environment.storage import Storage

AnyFileSystem = Annotated[NfsServer | AzureFiles | NetApp | Lustre, Field(discriminator="kind")]

HOME = "/home"


def lustre_log_container(name: str) -> str:
    """The container in which the Lustre file system of that name logs what it imports."""
    return f"lustre-{name}-logs"


def optional_roles(filesystems: Mapping[str, AnyFileSystem]) -> frozenset[str]:
    """The subnets that only these kinds of file systems need: `netapp`, `lustre`."""
    return frozenset(each.kind for each in filesystems.values()) & {"netapp", "lustre"}


def speaks_nfs_3(filesystems: Mapping[str, AnyFileSystem]) -> bool:
    """Whether a server speaks NFS 3, which needs more ports than one."""
    return any(isinstance(each, NfsServer) and 3 in each.versions for each in filesystems.values())


def check_filesystems(
    filesystems: Mapping[str, AnyFileSystem],
    clusters: Mapping[str, AnyCluster],
    storage: Storage,
    network: Network,
) -> None:
    """Raises FieldError where the rest of the environment cannot do what they need.

    The names under `mounts:` of the clusters are known to be right.
    """
    _check_imports(filesystems, storage)
    _check_mounts(filesystems, clusters)
    _check_subnets(filesystems, network)


def _check_imports(filesystems: Mapping[str, AnyFileSystem], storage: Storage) -> None:
    imports = {
        name: each.import_
        for name, each in filesystems.items()
        if isinstance(each, Lustre) and each.import_ is not None
    }
    for name, container in imports.items():
        path = ("filesystems", name, "import")
        if container not in storage.containers:
            from fairway_core.suggestions import did_you_mean

            hint = did_you_mean(container, storage.containers) or "add it there"
            raise FieldError(f"no `{container}` under `storage.containers:`", hint, path)
        if lustre_log_container(name) in storage.containers:
            raise FieldError(
                f"`{lustre_log_container(name)}` is where `{name}` logs its imports",
                "choose another name",
                ("storage", "containers", lustre_log_container(name)),
            )
        if storage.existing:
            raise FieldError(
                "Managed Lustre logs its imports to a container of its own, and Fairway "
                "creates none in an existing account",
                "leave it out, and copy the data to the file system in a job",
                path,
            )
        if not storage.account_keys:
            raise FieldError(
                "Managed Lustre reads Blob storage with the account's keys, which are disabled",
                "set `account_keys: true` under `storage:`; Terraform's state then holds them",
                path,
            )
    if storage.account_keys and not imports:
        raise FieldError(
            "nothing in the environment needs the account's keys",
            "leave it out",
            ("storage", "account_keys"),
        )


def _check_mounts(
    filesystems: Mapping[str, AnyFileSystem], clusters: Mapping[str, AnyCluster]
) -> None:
    for name, cluster in clusters.items():
        for index, mount in enumerate(cluster.mounts):
            filesystem, path = filesystems[mount], ("clusters", name, "mounts", index)
            if isinstance(cluster, KubernetesNodes):
                continue
            if filesystem.kind == "lustre" and not cluster.chosen_image.lustre_client:
                raise FieldError(
                    f"image `{cluster.chosen_image.alias}` has no Lustre client",
                    "use an HPC image such as `ubuntu-hpc-2404`, which has one",
                    path,
                )
            if filesystem.path == HOME and isinstance(cluster, BatchCluster):
                raise FieldError(
                    f"a mount on {HOME} would hide the home directories of Batch's users",
                    f"give `{mount}` another path, or leave it out here",
                    path,
                )


def _check_subnets(filesystems: Mapping[str, AnyFileSystem], network: Network) -> None:
    existing = network.existing.subnets.by_role if network.existing else None
    if existing is not None:
        _check_roles(filesystems, network, existing.keys())
    for name, filesystem in filesystems.items():
        if filesystem.kind == "lustre" and network.egress == "none":
            raise FieldError(
                "Managed Lustre works only if it reaches Azure's own services",
                "use another `egress:` or another kind of file system",
                ("filesystems", name),
            )
    needed = sum(lustre_addresses(f.tib) for f in filesystems.values() if f.kind == "lustre")
    if not needed:
        return
    subnet = existing["lustre"].range if existing else subnet_plan(network.address_space)["lustre"]
    if needed > subnet.num_addresses:
        raise FieldError(
            f"Lustre needs a subnet of {needed} addresses, and {subnet} has {subnet.num_addresses}",
            "use a larger subnet" if existing else "use a larger `address_space:`",
            ("network", "existing" if existing else "address_space"),
        )


def _check_roles(
    filesystems: Mapping[str, AnyFileSystem], network: Network, roles: Collection[str]
) -> None:
    """Raises FieldError with all the subnets that the environment needs and the network lacks."""
    role_of = {"nfs_server": "storage", "netapp": "netapp", "lustre": "lustre"}
    missing: dict[str, list[str]] = {}
    for name, filesystem in filesystems.items():
        role = role_of.get(filesystem.kind)
        if role and role not in roles:
            missing.setdefault(role, []).append(f"`{name}`")
    if network.private_endpoints and "endpoints" not in roles:
        missing["endpoints"] = ["private endpoints"]
    if missing:
        hint = f"add {', '.join(f'`{role}:`' for role in missing)}"
        if "endpoints" in missing:
            hint += "; without private endpoints: `private_endpoints: false` under `network:`"
        needs = ", ".join(need for each in missing.values() for need in each)
        path = ("network", "existing", "subnets")
        raise FieldError(f"no subnet for {needs}", hint, path)
