"""The parts of a new environment file that follow from what was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import image, vm_size
from fairway_core.catalog.regions import regions_without_zones

if TYPE_CHECKING:
    from fairway_runner.starter.answers import Answers

_HPC = "ubuntu-hpc-2404"
_FILESYSTEM = """\
filesystems:
  # A server with four disks, whose file system all nodes mount at /data.
  data:
    kind: nfs_server
    disks: {count: 4, gib: 1024}
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
        # Its nodes do not talk to each other: each job takes one.
        lines += [] if size.rdma else ["    mpi: false"]
    elif size.gpu and image(_HPC).fits(size):
        lines.append(f"    image: {_HPC}")
    if several:
        lines.append("    mounts: [data]")
    text = "\n".join(["clusters:", f"  # {comment}", f"  {answers.cluster}:", *lines]) + "\n"
    return f"{_FILESYSTEM if several else ''}{text}{'' if several else _MORE}".rstrip("\n")


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
