"""Host names on the internet that an environment's machines need, for the owner of a firewall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairway_core.catalog import vm_size
from fairway_core.catalog.tables import table
from fairway_core.environment.network import Firewall
from fairway_core.environment.slurm import SlurmRepository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment.kubernetes import Kubernetes
    from fairway_core.environment.model import Environment


@dataclass(frozen=True)
class Outbound:
    """A host name, its port, and the reason it is needed; rows of egress.toml."""

    name: str
    port: int
    reason: str


def outbound(environment: Environment) -> list[Outbound]:
    """Returns the names that a firewall or a proxy must allow, or none without either; those that
    only jobs ask for are not included."""
    network = environment.network
    is_own = network.existing is None and not isinstance(network.egress, Firewall)
    if is_own and network.proxy is None:
        return []
    wanted = {*_needs(environment), *(["web"] if environment.web else [])}
    host = urlsplit(environment.web.package).hostname if environment.web else ""
    own = [Outbound(host, 443, "Fairway itself, for the page of `web:`")] if host else []
    if environment.scheduler and isinstance(environment.scheduler.packages, SlurmRepository):
        place = urlsplit(environment.scheduler.packages.url)
        own.append(Outbound(place.hostname or "", place.port or 443, "packages of Slurm"))
    return own + [
        # The workspace's id is unknown before the first deployment.
        Outbound(
            name.format(location=environment.location, workspace="WORKSPACE-ID"),
            row["port"],
            row["reason"],
        )
        for row in table("egress")["egress"]
        if row["for"] in wanted
        for name in row["names"]
    ]


def _needs(environment: Environment) -> Iterator[str]:
    """Yields the kinds of rows of egress.toml that the environment's parts need."""
    if environment.scheduler is not None or environment.access.gateway:
        yield "ubuntu"
    for filesystem in environment.filesystems.values():
        yield from filesystem.egress
    for cluster in environment.machine_clusters.values():
        # Ubuntu's package of the NFS client, or AlmaLinux's.
        is_ubuntu = cluster.chosen_image.nfs_client_package == "nfs-common"
        yield "ubuntu" if is_ubuntu else "almalinux"
    if environment.scheduler is not None:
        yield "slurm"
        if environment.scheduler.packages == "microsoft":
            yield "slurm-microsoft"
    if any(cluster.engine == "ssh" and cluster.idle for cluster in environment.clusters.values()):
        yield "idle"
    if environment.monitoring is not None:
        yield "monitoring"
    if any(person.entra for person in environment.access.users):
        yield "entra"
    if environment.orchestrator is not None:
        yield from _of_kubernetes(environment, environment.orchestrator)


def _of_kubernetes(environment: Environment, cluster: Kubernetes) -> Iterator[str]:
    yield "kubernetes"
    if cluster.upgrades is not None and cluster.upgrades.nodes == "SecurityPatch":
        yield "kubernetes-patches"
    sizes = [vm_size(pool.size) for pool in environment.node_pools.values()]
    if any(size.gpu or size.rdma for size in sizes):
        yield "operators"
    if environment.monitoring is not None:
        yield "kubernetes-monitoring"
