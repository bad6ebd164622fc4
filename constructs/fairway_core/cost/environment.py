"""The billed parts of an environment: what its stacks would create."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.cost.line_items import (
    NAT_GATEWAY,
    PRIVATE_ENDPOINT,
    PUBLIC_IP,
    LineItem,
    server,
    vms,
    without_meter,
)
from fairway_core.cost.meters import HOURS_A_MONTH
from fairway_core.environment.clusters.ssh import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.cost.estimate import Estimate, Line
    from fairway_core.environment import Environment

_HOURS_A_WEEK = 7 * 24

# A resource's name and parts.
_Resource = tuple[str, list[LineItem]]


def line_items_of(environment: Environment, *, region: str | None = None) -> list[LineItem]:
    """Returns all parts, those of clusters first; `region` replaces the environment's."""
    place = region or environment.location
    resources = (*_machines(environment), *_network(environment), *_services(environment))
    return [
        replace(part, resource=resource, region=place)
        for resource, parts in resources
        for part in parts
    ]


def _machines(environment: Environment) -> Iterator[_Resource]:
    """Yields clusters, their managers, and file systems."""
    for name, cluster in environment.clusters.items():
        nodes = vms(cluster.size, cluster.counts, spot=bool(cluster.spot), cluster=True)
        yield f"cluster {name}", [nodes, *cluster.system_disks]
    for manager in environment.managers.values():
        yield from manager.cost(_endpoint(environment))
    for name, filesystem in environment.filesystems.items():
        endpoint = _endpoint(environment) if filesystem.private_link else []
        parts = filesystem.cost(environment.zone_number)
        yield f"file system {name}", [*parts, *endpoint]


def _network(environment: Environment) -> Iterator[_Resource]:
    if environment.network.has_nat:
        data = LineItem("data", reason="charged per GB that passes", by_use=True)
        yield "NAT gateway", [NAT_GATEWAY, PUBLIC_IP, data]
    if size := environment.access.gateway_size:
        yield "gateway", server(size)
    if environment.access.bastion:
        yield "bastion", [LineItem("bastion", "bastion/Standard"), PUBLIC_IP]
    for name in environment.network.peerings:
        yield f"peering {name}", without_meter("azurerm_virtual_network_peering", "data")


def _services(environment: Environment) -> Iterator[_Resource]:
    endpoint = _endpoint(environment)
    if not environment.storage.existing:
        yield "storage account", without_meter("azurerm_storage_account", "storage account")
    if environment.storage.has_endpoint:
        yield "storage account", endpoint
    if registry := environment.new_registry:
        yield "registry", [LineItem(registry.sku, f"registry/{registry.sku}"), *endpoint]
    if environment.has_vault:
        yield "vault", [*without_meter("azurerm_key_vault", "vault"), *endpoint]
    if environment.monitoring is not None:
        yield "logs", without_meter("azurerm_log_analytics_workspace", "logs")
        reason = "charged per rule and per GB inspected"
        yield "alerts", [LineItem("alerts", reason=reason, by_use=True)]


def _endpoint(environment: Environment) -> list[LineItem]:
    """Returns the private endpoint of a service, or nothing if services have none."""
    return [PRIVATE_ENDPOINT] if environment.network.private_endpoints else []


def savings(
    environment: Environment, found: Estimate
) -> Iterator[tuple[str, float | None, float | None]]:
    """Yields each cluster with a schedule: its resource, the hours a week in which its nodes run,
    or None if nothing starts them, and the monthly saving compared with nodes that always run."""
    for cluster, line in _stopping(environment, found):
        if cluster.schedule:
            week, hourly = cluster.schedule.hours_a_week, line.hourly.maximum
            saved = None
            if week is not None and hourly is not None:
                saved = HOURS_A_MONTH * hourly * (1 - week / _HOURS_A_WEEK)
            yield line.item.resource, week, saved


def idle_savings(
    environment: Environment, found: Estimate
) -> Iterator[tuple[str, float, float | None]]:
    """Yields each cluster that stops when idle: its resource, after how many seconds it stops, and
    the saving per hour in which it is stopped, or None if the price is unknown."""
    for cluster, line in _stopping(environment, found):
        if cluster.idle:
            yield line.item.resource, cluster.idle, line.hourly.maximum


def _stopping(environment: Environment, found: Estimate) -> Iterator[tuple[Cluster, Line]]:
    """Yields the clusters whose nodes can be stopped, each with the cost line of its nodes."""
    for line in found.lines:
        cluster = environment.clusters.get(line.item.resource.removeprefix("cluster "))
        if line.item.cluster and isinstance(cluster, Cluster):
            yield cluster, line
