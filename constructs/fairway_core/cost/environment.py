"""The parts of an environment: what its stacks would make, as far as it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_core.catalog import image
from fairway_core.cost.meters import HOURS_A_MONTH
from fairway_core.cost.parts import (
    ONE,
    PUBLIC_IP,
    Counts,
    Part,
    disks,
    netapp_pool,
    vms,
    without_meter,
)
from fairway_core.environment.batch import BatchCluster
from fairway_core.environment.cluster import Cluster
from fairway_core.environment.kubernetes import SYSTEM_GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.cost.estimate import Estimate, Line
    from fairway_core.environment import AnyCluster, AnyFileSystem, Environment

_HOURS_A_WEEK = 7 * 24

# The system of file servers, see the construct that makes them.
_SERVER_IMAGE = "ubuntu-2404"

# The parts of a resource, by its name.
_Resource = tuple[str, list[Part]]


def parts_of(environment: Environment, *, region: str | None = None) -> list[Part]:
    """Every part, cluster by cluster first; `region` takes the place of the environment's."""
    place = region or environment.location
    resources = (*_machines(environment), *_network(environment), *_services(environment))
    return [
        replace(part, resource=resource, region=place)
        for resource, parts in resources
        for part in parts
    ]


def _machines(environment: Environment) -> Iterator[_Resource]:
    """Clusters, what manages them, and file systems."""
    for name, cluster in environment.clusters.items():
        yield f"cluster {name}", _cluster(cluster)
    if slurm := environment.scheduler:
        state = [*disks("premium", slurm.disk_gib), *without_meter("azurerm_key_vault", "vault")]
        yield "Slurm scheduler", [*_server(slurm.scheduler_size), *state, *_endpoint(environment)]
        for number, size in enumerate(slurm.login.sizes if slurm.login else ()):
            yield f"Slurm login node {number}", _server(size)
    if kubernetes := environment.orchestrator:
        tier, system = kubernetes.tier, kubernetes.system
        if tier != "Free":
            yield "Kubernetes", [Part(f"{tier} API server", f"kubernetes/{tier}")]
        counts = Counts(system.node_range.min, system.node_range.max, system.node_range.min)
        nodes = [vms(system.size, counts), *disks("premium", SYSTEM_GIB, counts)]
        yield "Kubernetes system nodes", nodes
    for name, filesystem in environment.filesystems.items():
        endpoint = _endpoint(environment) if filesystem.kind == "azure_files" else []
        parts = _filesystem(filesystem, environment.zone_number)
        yield f"file system {name}", [*parts, *endpoint]


def _cluster(cluster: AnyCluster) -> list[Part]:
    """At rest the nodes of `engine: ssh`, which nothing resizes, are stopped; with any other
    engine the least number of them runs."""
    nodes, is_stopped = cluster.node_range, isinstance(cluster, Cluster)
    counts = Counts(nodes.min, nodes.max, 0 if is_stopped else nodes.min)
    found = [vms(cluster.size, counts, spot=bool(cluster.spot), cluster=True)]
    if isinstance(cluster, BatchCluster):
        reason = "Batch does not tell the kind and size of its nodes' system disks"
        return [*found, Part("system disks of the nodes", counts=counts, reason=reason)]
    if cluster.has_local_disk:
        return found
    # A stopped node keeps its disk; one that a scheduler deletes does not.
    counts = replace(counts, rest=nodes.max) if is_stopped else counts
    return [*found, *disks("premium", cluster.os_gib, counts)]


def _server(size: str) -> list[Part]:
    """A VM that always runs, such as a file server."""
    return [vms(size), *disks("premium", image(_SERVER_IMAGE).os_disk_gib)]


def _filesystem(filesystem: AnyFileSystem, zone: int | None) -> list[Part]:
    match filesystem.kind:
        case "nfs_server":
            own, backup = filesystem.disks, "azurerm_recovery_services_vault"
            counts, speed = ONE.times(own.count), {"iops": own.disk_iops, "mbps": own.disk_mbps}
            return [
                *_server(filesystem.size),
                *disks(own.kind, own.gib, counts, **speed),
                *(without_meter(backup, "backup") if filesystem.backup else ()),
            ]
        case "azure_files":
            meter, what = f"files/{filesystem.copies(zone)}", f"{filesystem.gib} GiB"
            return [Part(what, meter, ONE.times(filesystem.gib))]
        case "netapp":
            return [netapp_pool(filesystem.service_level, filesystem.tib)]
        case "lustre":
            return without_meter("azurerm_managed_lustre_file_system", f"{filesystem.tib} TiB")
        case "blobfuse":
            return []  # the storage account holds it


def _network(environment: Environment) -> Iterator[_Resource]:
    if environment.network.has_nat:
        data = Part("data", reason="charged per GB that passes", by_use=True)
        yield "NAT gateway", [Part("gateway", "nat_gateway"), PUBLIC_IP, data]
    if size := environment.access.gateway_size:
        yield "gateway", _server(size)
    if environment.access.bastion:
        yield "bastion", [Part("bastion", "bastion/Standard"), PUBLIC_IP]
    for name in environment.network.peerings:
        yield f"peering {name}", without_meter("azurerm_virtual_network_peering", "data")


def _services(environment: Environment) -> Iterator[_Resource]:
    endpoint = _endpoint(environment)
    if not environment.storage.existing:
        yield "storage account", without_meter("azurerm_storage_account", "storage account")
    if environment.storage.has_endpoint:
        yield "storage account", endpoint
    if environment.registry is not None and not environment.registry.existing:
        sku = environment.registry.sku
        yield "registry", [Part(sku, f"registry/{sku}"), *endpoint]
    if environment.has_vault:
        yield "vault", [*without_meter("azurerm_key_vault", "vault"), *endpoint]
    if environment.has_pools:
        both = [replace(each, what=f"2 {each.what}s", counts=ONE.times(2)) for each in endpoint]
        yield "Batch account", both
    if environment.monitoring is not None:
        yield "logs", without_meter("azurerm_log_analytics_workspace", "logs")
        reason = "charged per rule and per GB inspected"
        yield "alerts", [Part("alerts", reason=reason, by_use=True)]


def _endpoint(environment: Environment) -> list[Part]:
    """The private endpoint of a service, where services have one."""
    has_one = environment.network.private_endpoints
    return [Part("private endpoint", "private_endpoint")] if has_one else []


@dataclass(frozen=True)
class Saving:
    """The monthly saving of a cluster's schedule, compared with nodes that always run.

    `hours_a_week` are the hours in which nodes run; None if nothing starts them.
    """

    resource: str
    hours_a_week: float | None
    monthly: float | None


@dataclass(frozen=True)
class IdleSaving:
    """The saving for each hour in which a cluster with `idle:` is stopped; None if the price is not
    known."""

    resource: str
    after: float
    hourly: float | None


def savings(environment: Environment, found: Estimate) -> list[Saving]:
    """Of each cluster with a schedule."""
    saved = []
    for cluster, line in _stopping(environment, found):
        if cluster.schedule:
            week, hourly = cluster.schedule.hours_a_week, line.hourly.maximum
            monthly = None
            if week is not None and hourly is not None:
                monthly = HOURS_A_MONTH * hourly * (1 - week / _HOURS_A_WEEK)
            saved.append(Saving(line.part.resource, week, monthly))
    return saved


def idle_savings(environment: Environment, found: Estimate) -> list[IdleSaving]:
    """Of each cluster that stops itself; how many hours these are, its use decides."""
    return [
        IdleSaving(line.part.resource, cluster.idle, line.hourly.maximum)
        for cluster, line in _stopping(environment, found)
        if cluster.idle
    ]


def _stopping(environment: Environment, found: Estimate) -> Iterator[tuple[Cluster, Line]]:
    """The clusters whose nodes can be stopped, each with the line of its nodes."""
    for line in found.lines:
        cluster = environment.clusters.get(line.part.resource.removeprefix("cluster "))
        if line.part.cluster and isinstance(cluster, Cluster):
            yield cluster, line
