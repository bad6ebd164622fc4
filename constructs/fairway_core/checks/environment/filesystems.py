"""Rules on file systems: fast enough for the GPUs, and of disks that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import limit, vm_size
from fairway_core.catalog.disks import disk_kind
from fairway_core.catalog.limits import regions, regions_without_zones
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import Occurrence
    from fairway_core.environment import Environment


def _filesystems(environment: Environment) -> Iterator[Occurrence]:
    """Each file system with the GPUs that read from it: from the fastest that they mount."""
    readers = dict.fromkeys(environment.filesystems, 0)
    for cluster in environment.clusters.values():
        gpu = vm_size(cluster.size).gpu
        if gpu and cluster.mounts:
            speeds = {
                name: environment.filesystems[name].throughput_mbps for name in cluster.mounts
            }
            readers[max(speeds, key=lambda name: speeds[name])] += (
                gpu.count * cluster.node_range.max
            )
    for name, filesystem in environment.filesystems.items():
        facts = {"limits_mbps": filesystem.limits_mbps, "raised_by": filesystem.raised_by}
        yield ("filesystems", name), {**facts, "gpus": readers[name]}


@check("starved-gpus", Severity.WARNING, Subject.ENVIRONMENT, at=_filesystems)
def starved_gpus(
    limits_mbps: Mapping[str, float], raised_by: Mapping[str, str], gpus: int
) -> Iterator[Fault]:
    """A file system too slow for the GPUs of all the clusters that read from it.

    A cluster is assumed to read from the fastest of the file systems that it mounts.
    What an NFS server gives is the least of its disks together, the disk limit of its VM size
    and its network interface; what others give comes with their size. What a GPU reads is in
    the catalogue as `gpu_read_mbps`.

    Wrong:
        clusters: {nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}}

    Right:
        filesystems: {data: {size: Standard_D96s_v6, disks: {count: 12, iops: 5000, mbps: 500}}}
        clusters: {nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}}
    """
    binding = min(limits_mbps, key=lambda what: limits_mbps[what])
    gives, wanted = int(limits_mbps[binding]), gpus * limit("gpu_read_mbps")
    if gives < wanted:
        give = "give" if binding.endswith("disks") else "gives"
        readers = counted(gpus, "GPU")
        yield Fault(
            f"{readers} can read up to {wanted} MB/s, and {binding} {give} {gives} MB/s",
            f"{raised_by.get(binding, 'raise that limit')}, or keep the data on the nodes' own "
            "NVMe disks",
        )


@check("disks-need-a-zone", Severity.WARNING, Subject.ENVIRONMENT)
def disks_need_a_zone(environment: Environment) -> Iterator[Fault]:
    """Premium SSD v2 or Ultra disks outside of a zone, in a region that may have zones.

    In a region with zones Azure makes them in a zone only; in one without it makes them as they
    are. A warning, as it is not known of every region whether it has any.

    Wrong:
        zone: none
        filesystems: {data: {disks: {kind: premium_v2}}}

    Right:
        location: northcentralus
        zone: none
        filesystems: {data: {disks: {kind: premium_v2}}}
    """
    location = environment.location
    if environment.zone_number or location not in regions() - regions_without_zones():
        return
    for name, each in environment.filesystems.items():
        if each.data_disks and disk_kind(each.data_disks).zonal:
            yield Fault(
                f"if {location} has availability zones, Azure makes `{each.data_disks}` disks only "
                "in a zone",
                "use `disks: {kind: premium}`, or name a zone",
                ("filesystems", name),
            )
