"""The parts of a new environment file that follow from what was answered."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairway_core.catalog import image, limit, vm_size
from fairway_core.catalog.regions import regions_without_zones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.findings import Finding
    from fairway_runner.starter.answers import Answers

_HPC = "ubuntu-hpc-2404"
# Sizes of a file server, the usual one first, and how many disks it has then.
_SERVERS = (
    ("Standard_D16s_v6", 4),
    ("Standard_D32s_v6", 4),
    ("Standard_D64s_v6", 4),
    ("Standard_D96s_v6", 8),
    ("Standard_D128s_v6", 8),
)
# MB/s and IOPS of each of its disks at the least. Source: Azure documentation, Premium SSD v2.
_LEAST_MBPS, _LEAST_IOPS, _IOPS_FOR_A_MBPS = 125, 3000, 4
_FILESYSTEM = """\
filesystems:
  # A server with {count} disks, whose file system all nodes mount at /data.
  data:
    kind: nfs_server
{size}    disks: {{{disks}}}
    path: /data

"""
_MORE = """\
  # Several nodes of a size with InfiniBand (`fairway sizes --rdma`) are a cluster for MPI. They
  # share a file system, which `filesystems:` describes:
  #
  #   filesystems:
  #     data:
  #       kind: nfs_server
  #       size: Standard_D32s_v6
  #       disks: {count: 4, gib: 1024, iops: 5000, mbps: 500}
  #       path: /data
  #   clusters:
  #     pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}
"""


def clusters(answers: Answers) -> str:
    """`clusters:`, and `filesystems:` where several nodes share one."""
    size, several = vm_size(answers.size), answers.engine != "batch" and answers.nodes > 1
    lines = [f"    engine: {answers.engine}", f"    size: {size.name}"]
    if answers.engine == "ssh":
        comment = f"One VM with {_what(answers)}: a cluster of one node."
        if answers.nodes > 1:
            comment = f"{answers.nodes} VMs with {_what(answers)} each."
        lines.append(f"    nodes: {answers.nodes}")
    else:
        comment = f"Up to {answers.nodes} VMs with {_what(answers)} each, as jobs need them."
        lines.append(f"    nodes: {{min: 0, max: {answers.nodes}}}")
        several = answers.engine == "slurm"
    if answers.engine == "batch":
        lines.append("    autoscale: pending_tasks")
    elif size.gpu and image(_HPC).fits(size):
        lines.append(f"    image: {_HPC}")
    if several:
        lines.append("    mounts: [data]")
    text = "\n".join(["clusters:", f"  # {comment}", f"  {answers.cluster}:", *lines]) + "\n"
    return f"{_filesystem(answers) if several else ''}{text}{'' if several else _MORE}".rstrip("\n")


def _filesystem(answers: Answers) -> str:
    """`filesystems:`, with a server that is fast enough for what all GPUs read, if one is."""
    gpu = vm_size(answers.size).gpu
    wanted = (gpu.count if gpu else 0) * answers.nodes * limit("gpu_read_mbps")
    fast = (each for each in _SERVERS if _passes_on(each[0]) >= wanted)
    name, count = next(fast, _SERVERS[-1])
    mbps = math.ceil(min(wanted, _passes_on(name)) / count)
    disks = f"count: {count}, gib: 1024"
    if mbps > _LEAST_MBPS:
        iops = max(_LEAST_IOPS, _IOPS_FOR_A_MBPS * mbps)
        disks += f", iops: {iops}, mbps: {mbps}"
    usual = name == _SERVERS[0][0]
    return _FILESYSTEM.format(
        count={4: "four", 8: "eight"}[count],
        size="" if usual else f"    size: {name}\n",
        disks=disks,
    )


def _passes_on(server: str) -> int:
    """The MB/s that disks and network interface of a server of that size pass on."""
    size = vm_size(server)
    return min(size.remote_disk_mbps or 0, int((size.network_gbps or 0) * 1000 / 8))


def checks(known: Sequence[Finding]) -> str:
    """`checks:` with what `fairway check` would say of the answers; empty where it says nothing."""
    if not known:
        return ""
    ignored = "".join(f"    - {each.id}  # {each.message}\n" for each in known)
    return (
        "# Known of the answers that this file was made with: remove a line to be told again.\n"
        f"checks:\n  ignore:\n{ignored}\n"
    )


def zone(answers: Answers) -> str:
    """The zone of nodes and disks; `none` where the region has none."""
    return "none" if answers.location in regions_without_zones() else "1"


def ways_in(answers: Answers) -> str:
    """What access takes where no VM is there that leads to storage and Batch."""
    if answers.engine != "batch":
        return ""
    return (
        "\n  # A small VM by which storage and Batch are reached, which have no public address."
        "\n  gateway: true"
    )


def _what(answers: Answers) -> str:
    size = vm_size(answers.size)
    if size.gpu is None:
        return f"{size.vcpus} cores"
    return f"{size.gpu.count} {size.gpu.model}" if size.gpu.count > 1 else f"one {size.gpu.model}"
