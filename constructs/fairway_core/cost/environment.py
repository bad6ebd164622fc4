"""The parts of an environment: what its stacks would make, as far as it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.catalog import image
from fairway_core.catalog.disks import disk_kind
from fairway_core.cost import parts as make
from fairway_core.cost.meters import never_priced, paid_by_use
from fairway_core.cost.parts import Counts, Part
from fairway_core.environment.batch import BatchCluster
from fairway_core.environment.cluster import Cluster, fits_local_disk
from fairway_core.environment.kubernetes import SYSTEM_GIB
from fairway_core.environment.slurm import SlurmNodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import AnyCluster, AnyFileSystem, Environment

# The system of file servers, see the construct that makes them.
_SERVER_IMAGE = "ubuntu-2404"

_BATCH_DISKS = "Batch does not tell the kind and size of its nodes' system disks"


def parts_of(environment: Environment, *, region: str | None = None) -> list[Part]:
    """Every part, cluster by cluster first; `region` takes the place of the environment's."""
    region_name = region or environment.location
    return [
        *_clusters(environment, region_name),
        *_scheduler(environment, region_name),
        *_orchestrator(environment, region_name),
        *_filesystems(environment, region_name),
        *_network(environment, region_name),
        *_services(environment, region_name),
    ]


def node_counts(cluster: AnyCluster) -> Counts:
    """How many nodes run; at rest the nodes of `engine: ssh`, which nothing resizes, are stopped.

    Any other engine keeps its least number of nodes.
    """
    nodes = cluster.node_range
    rest = 0 if isinstance(cluster, Cluster) else nodes.min
    return Counts(nodes.min, nodes.max, rest)


def scheduled_hours(environment: Environment) -> dict[str, float | None]:
    """For how many hours of a week the nodes of each cluster with a schedule run."""
    return {
        name: cluster.schedule.hours_a_week
        for name, cluster in environment.clusters.items()
        if isinstance(cluster, Cluster) and cluster.schedule
    }


def idle_spans(environment: Environment) -> dict[str, float]:
    """After how many idle seconds each cluster stops itself that does."""
    return {
        name: cluster.idle
        for name, cluster in environment.clusters.items()
        if isinstance(cluster, Cluster) and cluster.idle
    }


def _clusters(environment: Environment, region: str) -> Iterator[Part]:
    for name, cluster in environment.clusters.items():
        resource, counts = f"cluster {name}", node_counts(cluster)
        spot = bool(cluster.spot)
        yield make.nodes(resource, region, size=cluster.size, counts=counts, spot=spot)
        if isinstance(cluster, BatchCluster):
            what = "system disks of the nodes"
            yield make.unpriced(resource, region, what=what, reason=_BATCH_DISKS, counts=counts)
        elif not (
            _is_local(cluster) if isinstance(cluster, SlurmNodes) else cluster.has_local_disk
        ):
            # A stopped node keeps its disk; one that a scheduler deletes does not.
            disks = replace(counts, rest=counts.maximum) if isinstance(cluster, Cluster) else counts
            yield make.tiered_disks(
                resource, region, kind="premium", gib=cluster.os_gib, counts=disks
            )


def _is_local(cluster: SlurmNodes) -> bool:
    """Whether system disks are on the nodes themselves; Spot nodes of Slurm are never kept."""
    if cluster.os_disk is not None:
        return cluster.os_disk == "local"
    return fits_local_disk(cluster.size, cluster.os_gib)


def _scheduler(environment: Environment, region: str) -> Iterator[Part]:
    """The VM of Slurm, with its jobs on a disk and its key in a vault of their own."""
    slurm = environment.scheduler
    if slurm is None:
        return
    resource, system = "Slurm scheduler", image(_SERVER_IMAGE).os_disk_gib
    yield make.machine(resource, region, size=slurm.scheduler_size)
    for gib in (system, slurm.disk_gib):
        yield make.tiered_disks(resource, region, kind="premium", gib=gib)
    reason = paid_by_use("azurerm_key_vault") or ""
    yield make.used(resource, region, what="vault", reason=reason)
    if environment.network.private_endpoints:
        yield _endpoint(resource, region)
    for number, size in enumerate(slurm.login.sizes if slurm.login else ()):
        resource = f"Slurm login node {number}"
        yield make.machine(resource, region, size=size)
        yield make.tiered_disks(resource, region, kind="premium", gib=system)


def _orchestrator(environment: Environment, region: str) -> Iterator[Part]:
    """The cluster of Kubernetes itself, and the nodes on which no job runs."""
    kubernetes = environment.orchestrator
    if kubernetes is None:
        return
    if kubernetes.tier != "Free":
        what = f"{kubernetes.tier} API server"
        yield make.flat("Kubernetes", region, meter=f"kubernetes/{kubernetes.tier}", what=what)
    resource, nodes = "Kubernetes system nodes", kubernetes.system.node_range
    counts = Counts(nodes.min, nodes.max, nodes.min)
    system = make.nodes(resource, region, size=kubernetes.system.size, counts=counts)
    yield replace(system, cluster=False)
    yield make.tiered_disks(resource, region, kind="premium", gib=SYSTEM_GIB, counts=counts)


def _filesystems(environment: Environment, region: str) -> Iterator[Part]:
    for name, filesystem in environment.filesystems.items():
        yield from _filesystem(f"file system {name}", region, filesystem, environment.zone_number)
        if filesystem.kind == "azure_files" and environment.network.private_endpoints:
            yield _endpoint(f"file system {name}", region)


def _filesystem(
    resource: str, region: str, filesystem: AnyFileSystem, zone: int | None
) -> Iterator[Part]:
    match filesystem.kind:
        case "nfs_server":
            yield make.machine(resource, region, size=filesystem.size)
            system = image(_SERVER_IMAGE).os_disk_gib
            yield make.tiered_disks(resource, region, kind="premium", gib=system)
            disks = filesystem.disks
            if disk_kind(disks.kind).provisioned:
                yield from make.provisioned_disks(
                    resource,
                    region,
                    kind=disks.kind,
                    gib=disks.gib,
                    iops=disks.disk_iops,
                    mbps=disks.disk_mbps,
                    count=disks.count,
                )
            else:
                count = Counts(disks.count, disks.count, disks.count)
                yield make.tiered_disks(
                    resource, region, kind=disks.kind, gib=disks.gib, counts=count
                )
            if filesystem.backup:
                reason = paid_by_use("azurerm_recovery_services_vault") or ""
                yield make.used(resource, region, what="backup", reason=reason)
        case "azure_files":
            meter, what = f"files/{filesystem.copies(zone)}", f"{filesystem.gib} GiB"
            yield make.flat(resource, region, meter=meter, what=what, units=filesystem.gib)
        case "netapp":
            yield make.netapp_pool(
                resource, region, level=filesystem.service_level, tib=filesystem.tib
            )
        case "lustre":
            reason = never_priced("azurerm_managed_lustre_file_system") or ""
            yield make.unpriced(resource, region, what=f"{filesystem.tib} TiB", reason=reason)


def _network(environment: Environment, region: str) -> Iterator[Part]:
    if environment.network.has_nat:
        yield make.flat("NAT gateway", region, meter="nat_gateway", what="gateway")
        yield make.flat("NAT gateway", region, meter="public_ip", what="public address")
        reason = "charged per GB that passes"
        yield make.used("NAT gateway", region, what="data", reason=reason)
    if size := environment.access.gateway_size:
        yield make.machine("gateway", region, size=size)
        system = image(_SERVER_IMAGE).os_disk_gib
        yield make.tiered_disks("gateway", region, kind="premium", gib=system)
    if environment.access.bastion:
        yield make.flat("bastion", region, meter="bastion/Standard", what="bastion")
        yield make.flat("bastion", region, meter="public_ip", what="public address")
    for name in environment.network.peerings:
        reason = paid_by_use("azurerm_virtual_network_peering") or ""
        yield make.used(f"peering {name}", region, what="data", reason=reason)


def _services(environment: Environment, region: str) -> Iterator[Part]:
    endpoints = environment.network.private_endpoints
    if not environment.storage.existing:
        yield _by_use("storage account", region, "azurerm_storage_account")
    if endpoints and environment.storage.has_endpoint:
        yield _endpoint("storage account", region)
    if environment.registry is not None and not environment.registry.existing:
        meter, what = f"registry/{environment.registry.sku}", environment.registry.sku
        yield make.flat("registry", region, meter=meter, what=what)
        if endpoints:
            yield _endpoint("registry", region)
    if environment.has_vault:
        yield _by_use("vault", region, "azurerm_key_vault")
        if endpoints:
            yield _endpoint("vault", region)
    if environment.has_pools and endpoints:
        yield _endpoint("Batch account", region, count=2)
    if environment.monitoring is not None:
        yield _by_use("logs", region, "azurerm_log_analytics_workspace")
        reason = "charged per rule and per GB inspected"
        yield make.used("alerts", region, what="alerts", reason=reason)


def _by_use(resource: str, region: str, type_: str) -> Part:
    return make.used(resource, region, what=resource, reason=paid_by_use(type_) or "")


def _endpoint(resource: str, region: str, count: int = 1) -> Part:
    what = "private endpoint" if count == 1 else f"{count} private endpoints"
    return make.flat(resource, region, meter="private_endpoint", what=what, units=count)
