"""An environment's partitions in Slurm's terms: plain data for `fairway_core.slurm`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_constructs.arguments import checked
from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_core.catalog import vm_size
from fairway_core.environment.clusters.node_rules import check_scale_set
from fairway_core.environment.clusters.slurm.partition import slurm_memory_mib
from fairway_core.environment.keys import read_repository_key
from fairway_core.slurm import (
    DISTRIBUTION,
    MICROSOFT,
    Accounting,
    Cloud,
    Gpus,
    NodeFacts,
    Packages,
    Partition,
    Qos,
    SlurmCluster,
    Timing,
)
from fairway_core.slurm.rendering import share_commands
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_core.catalog import VmSize
    from fairway_core.environment import Slurm
    from fairway_core.environment.clusters.node_rules import ScaleSetNodes

# The validity of a job's launch, and the delay of a requeued job.
_CREDENTIAL_SECONDS = 30

# Device files of a node's GPUs, in the order of their numbers. AMD's start at 128.
_DEVICES = {"nvidia": ("/dev/nvidia{}", 0), "amd": ("/dev/dri/renderD{}", 128)}


@checked
@dataclass(frozen=True, kw_only=True)
class SlurmPartition:
    """Nodes of one VM size that Slurm starts for jobs and deletes when they are idle.

    `nodes` is their least and largest number; they are all dedicated or all Spot.

    >>> SlurmPartition(size="Standard_ND96isr_H100_v5", nodes=NodeRange(min=0, max=16)).node_range
    NodeRange(min=0, max=16)
    """

    size: str
    nodes: ScaleSetNodes | NodeRange
    spot: bool = False

    def __post_init__(self) -> None:
        check_scale_set(self.node_range.max, ("nodes",))

    @property
    def node_range(self) -> NodeRange:
        """The least and the largest number of nodes."""
        return NodeRange.of(self.nodes)


def slurm_cluster(
    environment: str,
    spec: Slurm,
    partitions: Mapping[str, SlurmPartition],
    *,
    host: str,
    address: str,
    several_users: bool = False,
) -> SlurmCluster:
    """Returns the cluster of an environment; the scheduler's `address` may be a reference.

    With `several_users` others have accounts beside the login user. The first partition is the
    default of jobs.
    """
    return SlurmCluster(
        name=environment,
        host=host,
        address=address,
        partitions=tuple(
            partition(name, nodes, default=index == 0)
            for index, (name, nodes) in enumerate(partitions.items())
        ),
        timing=Timing(credential=_CREDENTIAL_SECONDS),
        cloud=Cloud(idle=int(spec.idle)),
        accounting=(
            Accounting(
                accounts=tuple(spec.accounts.items()),
                qos=tuple((name, Qos(**dict(each))) for name, each in spec.qos.items()),
                users=(ADMIN_USERNAME,),
                several=several_users,
            )
            if spec.accounting
            else None
        ),
        packages=packages_of(spec),
    )


def with_shares(accounts: Accounts, cluster: SlurmCluster) -> Accounts:
    """Returns the users' accounts with their shares in the accounting of their scheduler."""
    names = [person.name for person in accounts.people]
    return replace(accounts, shares=share_commands(cluster, names))


def packages_of(spec: Slurm) -> Packages:
    """Returns the Slurm packages of the scheduler, login nodes and nodes.

    Raises UserError for a repository whose key is neither given nor in a file.
    """
    if spec.packages == "microsoft":
        return MICROSOFT
    if spec.packages == "distribution":
        return DISTRIBUTION
    # An environment has the key's text by now; a program may name its file.
    key = read_repository_key(spec.packages.key, folder=Path())
    return Packages(**{**spec.packages.model_dump(), "key": key})


def partition(name: str, spec: SlurmPartition, *, default: bool) -> Partition:
    """Returns a partition: its nodes' hardware, and their features."""
    size = vm_size(spec.size)
    sockets, cores, threads = _topology(size)
    return Partition(
        name=name,
        count=spec.node_range.max,
        kept=spec.node_range.min,
        cloud=True,
        cpus=size.vcpus,
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        memory_mib=slurm_memory_mib(spec.size),
        gpus=_gpus(size),
        # For the constraints of jobs.
        features=(
            _short(size),
            *(("ib",) if size.rdma else ()),
            "spot" if spec.spot else "dedicated",
        ),
        default=default,
    )


def node_facts(size: VmSize, mounts: Sequence[Mount], *, image_checks: bool = False) -> NodeFacts:
    """Returns the facts that the health check of a node of that size expects.

    With `image_checks` the image's own checks, which measure its hardware, precede its first job.
    """
    return replace(
        NodeFacts.of(size),
        mounts=tuple(mount.path for mount in mounts),
        image_checks=_short(size) if image_checks else "",
    )


def _topology(size: VmSize) -> tuple[int, int | None, int]:
    """Returns sockets, cores per socket and threads per core: a NUMA domain counts as a socket.

    If the catalogue does not know the domains, or they do not share the cores evenly, there is one
    socket.
    """
    sockets = size.numa_domains or 1
    if size.cores % sockets:
        sockets = 1
    threads = size.vcpus // size.cores if size.vcpus % size.cores == 0 else 1
    return sockets, size.vcpus // threads // sockets, threads


def _gpus(size: VmSize) -> Gpus | None:
    if size.gpu is None:
        return None
    pattern, first = _DEVICES[size.gpu.vendor]
    return Gpus(
        type=size.gpu.model.lower().replace(" ", ""),
        files=tuple(pattern.format(first + number) for number in range(size.gpu.count)),
        numa=size.gpu_numa,
    )


def _short(size: VmSize) -> str:
    return size.name.removeprefix("Standard_").lower()
