"""Boot data of an environment's machines, with the accounts of its users, measured before anything
is synthesized.

It is rendered as the stacks render it, with placeholders for the values that only Terraform knows:
so `fairway check` finds the errors of `fairway synth` without cdktf. Modules that only Slurm needs
are imported only for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from fairway_constructs.cloud_init import export_path
from fairway_constructs.cloud_init.mounts import MachineProxy, machine_proxy, nfs_mount
from fairway_constructs.cloud_init.people import Accounts, accounts_extension
from fairway_constructs.clusters.nodes import NodeSpec, cloud_init_of
from fairway_constructs.network_access import SubnetRef
from fairway_core.catalog import vm_size
from fairway_core.environment import Cluster, SlurmNodes
from fairway_core.environment.filesystems.home_directories import home_directories, shared_queue
from fairway_core.environment.filesystems.rules import scheduler_mounts
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.clusters.slurm.configuration import SlurmPartition
    from fairway_core.documents import Document
    from fairway_core.environment import Environment
    from fairway_core.environment.filesystems.home_directories import SharedQueue
    from fairway_core.findings import Finding
    from fairway_core.yaml_text import DataPath

# Longer than the tokens that cdktf has in place of references when it measures the same data.
_UNKNOWN = "?" * 40
_RANGE = IPv4Network("255.255.255.0/24")
# The number of services that bypass a proxy, see `DataStack.direct_hosts`.
_DIRECT = 5


def node_spec(
    environment: Environment,
    name: str,
    spec: Cluster | SlurmNodes,
    *,
    subnet: SubnetRef,
    mounts: Sequence[Mount],
) -> NodeSpec:
    """Returns a cluster's nodes as the environment describes them; mounts and subnet may be
    references."""
    return NodeSpec(
        size=vm_size(spec.size),
        image=spec.chosen_image,
        image_id=spec.image_id,
        accept_terms=spec.accept_terms,
        local_os_disk=None if spec.os_disk is None else spec.os_disk == "local",
        os_gib=spec.os_disk_gib,
        spot=spec.spot_options,
        subnet=subnet,
        proximity_placement_group_id=spec.proximity_placement_group,
        mounts=mounts,
        monitored=environment.monitoring is not None,
        signed_in={each.entra: each.admin for each in environment.access.users if each.entra},
        idle=spec.stops_after,
        accounts=accounts_of(
            environment,
            spec.mounts,
            fenced=spec.is_partition,
            queue=queue_of(environment, name),
            containers=True,
        ),
    )


def boot_findings(environment: Environment, document: Document | None = None) -> list[Finding]:
    """Returns boot data and account lists that exceed Azure's limit, each once, with its line."""
    found: dict[str, Finding] = {}
    for path, make in _machines(environment):
        try:
            make()
        except UserError as error:
            location = document.location(path, of_key=True) if document else None
            for each in error.findings:
                placed = replace(each, path=".".join(map(str, path)), location=location)
                found.setdefault(each.message, placed)
    return list(found.values())


def _machines(environment: Environment) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    """Yields, for each machine, its path in the file and a function that renders its boot data or
    its accounts."""
    proxy = machine_proxy(environment.network.proxy, environment.network.ranges.values())
    if proxy:
        proxy = proxy.past(f"{_UNKNOWN}{number}" for number in range(_DIRECT))
    if environment.access.gateway_size and (accounts := accounts_of(environment)):
        yield ("access", "users"), partial(accounts_extension, accounts)
    if environment.scheduler is not None:
        yield from _scheduler(environment, proxy)
    for name, spec in environment.login_clusters.items():
        nodes = node_spec(
            environment,
            name,
            spec,
            subnet=SubnetRef(_UNKNOWN, _RANGE),
            mounts=_mounts(environment, spec.mounts),
        )
        slurm = None
        if spec.is_partition:
            slurm = slurm_node(
                environment,
                name,
                nodes.mounts,
                scheduler=_UNKNOWN,
                vault=_UNKNOWN,
                client_id=_UNKNOWN,
                people_vault=_UNKNOWN,
            )
        yield (
            ("clusters", name),
            partial(
                cloud_init_of,
                name,
                nodes,
                host_patterns=[_UNKNOWN, *([f"{name}-*"] if slurm else [])],
                health_probe=isinstance(spec, Cluster) and spec.repair is not None,
                slurm=slurm,
                single=spec.is_single,
                identity_id=_UNKNOWN,
                proxy=proxy,
            ),
        )
        if nodes.accounts and not slurm:
            yield ("access", "users"), partial(accounts_extension, nodes.accounts)


def slurm_partitions(clusters: Mapping[str, SlurmNodes]) -> dict[str, SlurmPartition]:
    """Returns these clusters as the partitions that the scheduler knows."""
    from fairway_constructs.clusters.slurm.configuration import SlurmPartition

    return {
        name: SlurmPartition(size=each.size, nodes=each.nodes, spot=bool(each.spot))
        for name, each in clusters.items()
    }


def _scheduler(
    environment: Environment, proxy: MachineProxy | None
) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    from fairway_constructs.cloud_init.slurm import scheduler_cloud_init
    from fairway_constructs.clusters.slurm.configuration import slurm_cluster, with_shares

    spec = environment.scheduler
    assert spec is not None
    partitions = environment.partitions
    filesystems = list(scheduler_mounts(environment.filesystems, environment.clusters))
    accounts = accounts_of(environment, filesystems, fenced=True)
    cluster = slurm_cluster(
        environment.name,
        spec,
        slurm_partitions(partitions),
        host=_UNKNOWN,
        address=_UNKNOWN,
        several_users=accounts is not None,
    )
    yield (
        ("clusters",),
        partial(
            scheduler_cloud_init,
            cluster,
            # The id of a scale set, as in `clusters.slurm`, is this and two names.
            scale_sets={name: _UNKNOWN * 5 + name for name in partitions},
            vault=_UNKNOWN,
            client_id=_UNKNOWN,
            mounts=_mounts(environment, filesystems),
            addresses="255.255.255.*",
            proxy=proxy,
        ),
    )
    if accounts is not None:
        yield ("access", "users"), partial(accounts_extension, with_shares(accounts, cluster))


def slurm_node(
    environment: Environment,
    name: str,
    mounts: Sequence[Mount],
    *,
    scheduler: str,
    vault: str,
    client_id: str,
    people_vault: str,
) -> SlurmNode:
    """Returns the settings of a partition's nodes; `people_vault` is that of the environment, from
    which users' jobs read secrets if there are users."""
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.clusters.slurm.configuration import node_facts, packages_of

    spec = environment.partitions[name]
    has_people = environment.vault is not None and bool(environment.access.users)
    assert environment.scheduler is not None, "there is a partition"
    return SlurmNode(
        partition=name,
        scheduler=scheduler,
        vault=vault,
        client_id=client_id,
        packages=packages_of(environment.scheduler),
        people_vault=people_vault if has_people else "",
        facts=node_facts(vm_size(spec.size), mounts, image_checks=spec.health == "full"),
    )


def _mounts(environment: Environment, names: Sequence[str]) -> list[Mount]:
    """Returns mounts at least as long as the real ones: an NFS server's has the longest options."""
    found = []
    for name in names:
        spec = environment.filesystems[name]
        mount = nfs_mount(
            name=name,
            server=_UNKNOWN * 2,
            export=export_path(name),
            path=spec.path,
            version=spec.newest_version,
            root=not spec.is_server,
        )
        found.append(replace(mount, type=spec.mount_type, source=spec.source or mount.source))
    return found


def accounts_of(
    environment: Environment,
    mounts: Sequence[str] = (),
    *,
    fenced: bool = False,
    queue: SharedQueue | None = None,
    containers: bool = False,
) -> Accounts | None:
    """Returns the accounts on a machine with these file systems, or None if all users share one.

    `fenced` is for machines whose identity may read Slurm's key; users' runs wait in `queue`;
    `containers` is for nodes. An empty list differs from None: a machine locks the users who are no
    longer in it.
    """
    if "users" not in environment.access.model_fields_set:
        return None
    people = [person for person in environment.access.users if person.keys]
    return Accounts(
        people=people,
        homes=home_directories(environment.filesystems, environment.clusters, mounts),
        fenced=fenced,
        queue=queue,
        containers=containers,
        signed_in=[person.name for person in environment.access.users if person.entra],
    )


def queue_of(environment: Environment, name: str) -> SharedQueue | None:
    """Returns the queue of users' runs for a cluster's nodes, or None if all share one account or a
    scheduler has its own queue."""
    cluster = environment.clusters[name]
    if cluster.is_partition or "users" not in environment.access.model_fields_set:
        return None
    return shared_queue(environment.filesystems, name, cluster)


def folders_of(environment: Environment, mounts: Sequence[str] | None) -> dict[str, str] | None:
    """Returns each user's own folder for runs on machines with these file systems; "" for `mounts`
    None, as on a pool, where users have none. Returns None if all share one account."""
    folder = ""
    if mounts is not None:
        folder = home_directories(environment.filesystems, environment.clusters, mounts).folder
    found = {}
    for each in environment.access.users:
        # Entra ID creates the homes of the users who sign in with it.
        own = "~" if each.entra else f"{folder}/{each.name}"
        found[each.name] = folder and f"{own}/fairway"
    return found or None
