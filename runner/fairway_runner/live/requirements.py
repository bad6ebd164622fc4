"""Requirements of an environment on a subscription: VMs, images and resource providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.catalog import Image, VmSize, image, vm_size
from fairway_core.catalog.images import SERVER_IMAGE, has_image
from fairway_core.catalog.roles import action_that_makes
from fairway_core.catalog.sizes import vm_sizes
from fairway_core.cost.environment import line_items_of

if TYPE_CHECKING:
    from fairway_core.environment import Environment
    from fairway_runner.live.management import Facts

# Resource providers that every environment uses, see the stacks.
_ALWAYS = (
    "Microsoft.Authorization",
    "Microsoft.Compute",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.Storage",
)

# Paths in the environment file of parts outside the named sections.
_AKS_NODES = "Kubernetes system nodes"
_PATHS = {"gateway": "access.gateway", _AKS_NODES: "kubernetes.system"}


@dataclass(frozen=True)
class Existing:
    """An existing resource, by the field that names it; `api` is the API version for asking about
    it, and `same_region` says that it has to be in the environment's region."""

    path: str
    id: str
    api: str
    same_region: bool


@dataclass(frozen=True)
class Machines:
    """The largest number of VMs of one size, for the part of the environment at `path`; nodes of a
    Batch `pool` count against the quota of its account."""

    path: str
    size: str
    count: int
    spot: bool = False
    pool: bool = False

    @property
    def vcpus(self) -> int:
        """vCPUs of all of them, which quotas count."""
        return self.count * vm_size(self.size).quota_vcpus


def machines_of(environment: Environment) -> list[Machines]:
    """Returns all VMs, each with its largest number."""
    of_account = () if environment.owns_pool_nodes else environment.pools
    pools = {f"clusters.{name}" for name in of_account}
    sized = [(_path(part.resource), part) for part in line_items_of(environment) if part.size]
    return [
        Machines(path, part.size, round(part.counts.maximum), spot=part.spot, pool=path in pools)
        for path, part in sized
    ]


def images_of(environment: Environment) -> dict[str, Image]:
    """Returns the images with exact versions of VMs, by the path of each cluster and, for the one
    of all servers, of the first."""
    found = {}
    for name, cluster in environment.machine_clusters.items():
        chosen = image(cluster.image) if cluster.image else cluster.chosen_image
        if getattr(cluster, "image_id", None) is None and chosen.pinned:
            found[f"clusters.{name}"] = chosen
    servers = [
        part.resource for part in line_items_of(environment) if part.size and not part.cluster
    ]
    own = [name for name in servers if name != _AKS_NODES]
    if own and image(SERVER_IMAGE).pinned:
        found[_path(own[0])] = image(SERVER_IMAGE)
    return found


def pool_images_of(environment: Environment) -> dict[str, Image]:
    """Returns the Marketplace images of pools, by the path of the cluster."""
    return {
        f"clusters.{name}": pool.chosen_image
        for name, pool in environment.pools.items()
        if pool.image_id is None
    }


def providers_of(environment: Environment) -> list[str]:
    """Returns the resource providers that must be registered in the subscription."""
    return sorted({*_ALWAYS, *_optional_providers(environment)})


def features_of(environment: Environment) -> list[str]:
    """Returns the features of providers that must be registered before deployment:
    `NAMESPACE/FEATURE`. Without that of AKS, nodes of a pool with InfiniBand do not join one
    fabric. Source: Azure/aks-rdma-infiniband."""
    fast = any(vm_size(pool.size).rdma for pool in environment.node_pools.values())
    return ["Microsoft.ContainerService/AKSInfinibandSupport"] if fast else []


def actions_of(environment: Environment) -> list[str]:
    """Returns the actions that a deployment requires: of each role, those that no other grants."""
    types = ["azurerm_role_assignment"]
    if environment.resource_group is None or not environment.resource_group.existing:
        types.append("azurerm_resource_group")
    if environment.protect:
        types.append("azurerm_management_lock")
    stops = _has(environment, "schedule") or _has(environment, "idle")
    is_placed = any(pool.proximity_placement_group for pool in environment.node_pools.values())
    if environment.scheduler is not None or stops or is_placed:
        types.append("azurerm_role_definition")
    return sorted(filter(None, map(action_that_makes, types)))


def extended_machines_of(environment: Environment) -> dict[str, str]:
    """Returns the names of VMs with extensions for people's logins or logs, by their clusters."""
    has_extensions = environment.monitoring is not None or bool(environment.access.users)
    return {
        name: environment.resource_name("linux_virtual_machine", name)
        for name, cluster in environment.clusters.items()
        if has_extensions and cluster.is_single
    }


def existing_of(environment: Environment) -> list[Existing]:
    """Returns the resources that the environment uses and does not create, except its network."""
    group, registry = environment.resource_group, environment.registry
    monitoring = environment.monitoring
    found = (
        ("resource_group.existing", group and group.existing, "2021-04-01", False),
        ("storage.existing", environment.storage.existing, "2023-01-01", True),
        ("registry.existing", registry and registry.existing, "2023-07-01", False),
        ("monitoring.workspace", monitoring and monitoring.workspace, "2022-10-01", True),
    )
    return [Existing(path, id_, api, here) for path, id_, api, here in found if id_]


def _optional_providers(environment: Environment) -> Iterator[str]:
    if environment.node_pools:  # for the cluster, and for Flux in it
        yield from ("Microsoft.ContainerService", "Microsoft.KubernetesConfiguration")
    if environment.pools:
        yield "Microsoft.Batch"
    if environment.has_vault or environment.scheduler is not None:
        yield "Microsoft.KeyVault"
    if environment.new_registry:
        yield "Microsoft.ContainerRegistry"
    if _has(environment, "schedule"):
        yield "Microsoft.Logic"
    if environment.monitoring is not None:
        yield from ("Microsoft.AlertsManagement", "Microsoft.Insights")
        yield "Microsoft.OperationalInsights"
    if environment.budget is not None:
        yield "Microsoft.Consumption"
    filesystems = environment.filesystems.values()
    if any(each.is_backed_up for each in filesystems):
        yield "Microsoft.RecoveryServices"
    yield from (each.provider for each in filesystems if each.provider)


def _has(environment: Environment, field: str) -> bool:
    """Returns True if a cluster has that field, which clusters of some engines never have."""
    return any(getattr(each, field, None) for each in environment.clusters.values())


def _path(resource: str) -> str:
    """Returns the path of a part in the environment's file: `clusters.nd` for `cluster nd`."""
    if resource in _PATHS:
        return _PATHS[resource]
    kind, _, name = resource.rpartition(" ")
    section = {"cluster": "clusters", "file system": "filesystems"}.get(kind)
    return f"{section}.{name}" if section else "slurm"


@dataclass(frozen=True)
class Offer:
    """One size as one part of the environment asks for it.

    `refusal` is why the subscription may not have it there, "" if it may; `zones` are those in
    which it may. `vcpus_left` is what the quota leaves, of `vcpus_limit`, and `room` how many VMs
    that is; None if a Batch account's quota counts, or none is known. `nearest` is the most similar
    size of which the subscription may have as many; "" if this one suffices, or there is none.
    """

    path: str
    size: str
    wanted: int
    spot: bool
    refusal: str
    zones: tuple[str, ...]
    vcpus_left: int | None
    vcpus_limit: int | None
    nearest: str

    @property
    def room(self) -> int | None:
        """Number of VMs for which the quota has room; None if that is unknown."""
        if self.vcpus_left is None:
            return None
        return self.vcpus_left // max(1, vm_size(self.size).quota_vcpus)


@dataclass(frozen=True)
class Subscription:
    """Sizes available to a subscription in a region, and the use of each quota."""

    location: str
    zone: int | None
    skus: Sequence[Facts]
    usages: Sequence[Facts]

    def offers(self, machines: Sequence[Machines]) -> Iterator[Offer]:
        """Yields an offer for each part of an environment that asks for VMs."""
        for each in machines:
            size = vm_size(each.size)
            refusal, zones = self._may_have(size.name)
            left, limit = (None, None) if each.pool else self._left(size, spot=each.spot)
            short = left is not None and left < each.vcpus
            nearest = self._nearest(size, each) if refusal or short else ""
            yield Offer(
                each.path, size.name, each.count, each.spot, refusal, zones, left, limit, nearest
            )

    def _may_have(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Returns why the subscription may not have a size here, and the zones in which it may."""
        sku = next((s for s in self.skus if str(s.get("name", "")).lower() == name.lower()), None)
        if sku is None:
            return f"not in {self.location}", ()
        zones = {z for info in sku.get("locationInfo") or () for z in info.get("zones") or ()}
        refusal = ""
        for restriction in sku.get("restrictions") or ():
            closed = (restriction.get("restrictionInfo") or {}).get("zones") or ()
            if str(restriction.get("type", "")).lower() == "location":
                refusal = str(restriction.get("reasonCode") or "restricted")
                closed = tuple(zones)
            zones -= set(closed)
        if not refusal and self.zone is not None and str(self.zone) not in zones:
            refusal = f"not in zone {self.zone}"
        return refusal, tuple(sorted(zones))

    def _left(self, size: VmSize, *, spot: bool) -> tuple[int | None, int | None]:
        """Returns the vCPUs that the tightest of its quotas leaves, and the limit of that quota."""
        # In Microsoft.Compute/usages all sizes share `cores`, and on Spot `lowPriorityCores` alone.
        names = ("lowPriorityCores",) if spot else (size.quota_family, "cores")
        wanted = {name.lower() for name in names if name}
        found = [
            (int(each["limit"]) - int(each["currentValue"]), int(each["limit"]))
            for each in self.usages
            if str(each["name"]["value"]).lower() in wanted
        ]
        return min(found) if found else (None, None)

    def _nearest(self, size: VmSize, asked: Machines) -> str:
        """Returns the most similar size of which the subscription may have as many VMs."""

        def fits(other: VmSize) -> bool:
            left, _ = self._left(other, spot=asked.spot)
            return left is not None and left >= max(1, asked.count) * other.quota_vcpus

        known = [
            other
            for other in vm_sizes().values()
            if _is_alike(size, other) and not self._may_have(other.name)[0]
            if asked.pool or fits(other)
        ]
        best = min(known, key=lambda other: _distance(size, other), default=None)
        return best.name if best else ""


def _is_alike(size: VmSize, other: VmSize) -> bool:
    """Returns True if a job for one size can run on the other at all."""
    gpus = [each.gpu.vendor if each.gpu else "" for each in (size, other)]
    return (
        other.name != size.name
        and other.status == "current"
        and has_image(other)
        and gpus[0] == gpus[1]
        and other.architecture == size.architecture
        and (other.rdma or not size.rdma)
    )


def _distance(size: VmSize, other: VmSize) -> tuple[float, ...]:
    vcpus = max(size.vcpus, other.vcpus) / min(size.vcpus, other.vcpus)
    memory = max(size.memory_gib, other.memory_gib) / min(size.memory_gib, other.memory_gib)
    if size.gpu is None or other.gpu is None:
        return (float(size.rdma != other.rdma), vcpus * memory)
    return (
        abs(size.gpu.count - other.gpu.count),
        float(size.gpu.model != other.gpu.model),
        float(size.gpu.architecture != other.gpu.architecture),
        abs(size.gpu.memory_gb - other.gpu.memory_gb),
        vcpus * memory,
    )
