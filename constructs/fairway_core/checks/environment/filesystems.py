"""Rules on file systems: fast enough for the GPUs, and in a place that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import limit, vm_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.environment.places import most_nodes
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import EnvironmentSubject
    from fairway_core.environment import Environment


def _nfs_servers(subject: EnvironmentSubject) -> Iterator[Place]:
    for name, filesystem in subject.environment.filesystems.items():
        if filesystem.kind != "nfs_server":
            continue
        size, disks = vm_size(filesystem.size), filesystem.disks
        limits = {
            "its disks": disks.count * disks.mbps,
            "the disk limit of its VM size": size.remote_disk_mbps,
            "its network interface": size.network_gbps and size.network_gbps * 1000 / 8,
        }
        yield (
            ("filesystems", name),
            {
                "limits_mbps": {what: mbps for what, mbps in limits.items() if mbps},
                "gpus": _gpus_that_mount(name, subject.environment),
            },
        )


def _gpus_that_mount(filesystem: str, environment: Environment) -> int:
    return sum(
        gpu.count * most_nodes(cluster)
        for cluster in environment.clusters.values()
        if filesystem in cluster.mounts and (gpu := vm_size(cluster.size).gpu)
    )


@check("starved-gpus", Severity.WARNING, Subject.ENVIRONMENT, at=_nfs_servers)
def starved_gpus(limits_mbps: Mapping[str, float], gpus: int) -> Iterator[Fault]:
    """A file server that cannot feed the GPUs of all the clusters that mount it.

    What a server gives is the least of its disks together, the disk limit of its VM size and
    its network interface; what a GPU reads is in the catalogue as `gpu_read_mbps`.

    Wrong:
        clusters:
          nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}

    Right:
        filesystems:
          data:
            size: Standard_D96s_v6
            disks: {count: 12, iops: 5000, mbps: 500}
        clusters:
          nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}
    """
    binding = min(limits_mbps, key=lambda what: limits_mbps[what])
    gives, wanted = int(limits_mbps[binding]), gpus * limit("gpu_read_mbps")
    if gives < wanted:
        yield Fault(
            f"{gpus} GPUs read up to {wanted} MB/s, and {binding} give{_s(binding)} {gives} MB/s",
            "raise that limit, or keep the data on the nodes' own NVMe disks",
        )


def _s(subject: str) -> str:
    return "" if subject.endswith("disks") else "s"
