"""What a subscription may have of each VM size of an environment, and what else it may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.catalog import vm_size
from fairway_core.catalog.images import has_image
from fairway_core.catalog.sizes import vm_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.catalog import VmSize
    from fairway_runner.live.requirements import Machines

# As Microsoft.Compute/usages calls the quotas that all sizes share.
_REGION, _SPOT = "cores", "lowPriorityCores"


@dataclass(frozen=True)
class Offer:
    """One size as one part of the environment asks for it.

    `refusal` is why the subscription may not have it where the environment is; empty where it may.
    `zones` are those in which it may. `vcpus_left` is what the quota leaves, of `vcpus_limit`,
    and `room` how many VMs that is; None where a Batch account's quota counts, or none is known.
    `nearest` is the size most like it that the subscription may have as many of; empty where it
    has enough of this one, or where there is none.
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
        """How many VMs the quota leaves."""
        if self.vcpus_left is None:
            return None
        return self.vcpus_left // max(1, vm_size(self.size).quota_vcpus)


@dataclass(frozen=True)
class Subscription:
    """What a subscription said of a region: its sizes, and how much of each quota is used."""

    location: str
    zone: int | None
    skus: Sequence[Mapping[str, Any]]
    usages: Sequence[Mapping[str, Any]]

    def offers(self, machines: Sequence[Machines]) -> Iterator[Offer]:
        """One for each part of an environment that asks for VMs."""
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
        """Why the subscription may not have a size here, and the zones in which it may."""
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
        """The vCPUs that the tightest of its quotas leaves, and the limit of that quota."""
        names = (_SPOT,) if spot else (size.quota_family, _REGION)
        wanted = {name.lower() for name in names if name}
        found = [
            (int(each["limit"]) - int(each["currentValue"]), int(each["limit"]))
            for each in self.usages
            if str(each["name"]["value"]).lower() in wanted
        ]
        return min(found) if found else (None, None)

    def _nearest(self, size: VmSize, asked: Machines) -> str:
        """The size most like that one of which the subscription may have as many VMs."""
        known = [
            other
            for other in vm_sizes().values()
            if _is_alike(size, other) and not self._may_have(other.name)[0]
        ]
        if not asked.pool:
            known = [other for other in known if self._has_room(other, asked)]
        best = min(known, key=lambda other: _distance(size, other), default=None)
        return best.name if best else ""

    def _has_room(self, size: VmSize, asked: Machines) -> bool:
        left, _ = self._left(size, spot=asked.spot)
        return left is not None and left >= max(1, asked.count) * size.quota_vcpus


def _is_alike(size: VmSize, other: VmSize) -> bool:
    """Whether a job for one size can run on the other at all."""
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
    """How far a size is from another: by its GPUs, then by vCPUs and memory."""
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
