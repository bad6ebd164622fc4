"""The fabric profile of a target: the catalogue's settings for the nodes that a job gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.catalog import Fabric, VmSize, fabric_for, fabrics, vm_size
from fairway_core.catalog.fabrics import infiniband_settings, socket_interfaces
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import capabilities

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job


@dataclass(frozen=True)
class FabricProfile:
    """Settings of a launcher's script for nodes of one VM size. `environment` goes to every rank,
    and `interfaces`, the network interfaces for each library's sockets, where neither node nor job
    has set it. `gpu_numa` gives the NUMA node of each local rank's GPU, and is empty unless ranks
    and GPUs match one to one. `mpirun` holds the arguments for each kind of MPI."""

    size: VmSize
    environment: Mapping[str, str]
    interfaces: Mapping[str, str]
    mpirun: Mapping[str, tuple[str, ...]]
    gpu_numa: tuple[int, ...]

    @property
    def sharp(self) -> bool:
        """True if NCCL is to reduce in the switches."""
        return "NCCL_COLLNET_ENABLE" in self.environment


def fabric_profile(target: Target, job: Job, *, sharp: bool = False) -> FabricProfile | None:
    """Returns the profile of the target's VM size, or None if it names none; `sharp` asks for
    in-network reduction, if the fabric has it. Raises UserError for an unknown size."""
    if not target.vm_size:
        return None
    try:
        size = vm_size(target.vm_size)
    except UserError as error:
        finding = error.findings[0]
        message = f"the target `{target.name}`: {finding.message}"
        hint = finding.hint or "leave out the target's `vm_size`: its nodes then get no settings"
        raise UserError.of(finding.id, message, hint) from None
    fabric = fabric_for(size)
    count, has_node = size.gpu.count if size.gpu else 0, job.wanted is None
    environment = _environment(size, fabric, sharp=sharp)
    is_mounted = capabilities(target.engine).mounts_topology
    if is_mounted and fabric.topology is None:
        environment.pop("NCCL_TOPO_FILE", None)
    if is_mounted or not has_node:
        environment.pop("NCCL_GRAPH_FILE", None)  # describes all GPUs, and is never mounted
    if is_mounted and size.rdma and "NCCL_TOPO_FILE" in environment:
        # Source: Azure/aks-rdma-infiniband, tests/scenarios/k8s/values.yaml.
        environment.setdefault("NCCL_NET_GDR_LEVEL", "SYS")
    return FabricProfile(
        size=size,
        environment=environment,
        interfaces=socket_interfaces(),
        mpirun={kind: _mpirun(kind, size, fabric, job) for kind in ("openmpi", "hpcx")},
        gpu_numa=size.gpu_numa if count and job.processes_per_node == count and has_node else (),
    )


def _environment(size: VmSize, fabric: Fabric, *, sharp: bool) -> dict[str, str]:
    """Returns the fabric's settings, depending on whether the size has InfiniBand."""
    settings = {**fabric.environment, **(fabric.sharp if sharp and size.rdma else {})}
    if size.rdma:
        # Even if a table says so, an existing fabric is never switched off.
        settings.pop("NCCL_IB_DISABLE", None)
        return {**infiniband_settings(), **settings}
    # A similar size without InfiniBand has its series' topology, but not its transports.
    ethernet = fabrics()["ethernet"].environment
    transports = {name for name in settings if name.startswith(("UCX_", "SHARP_"))}
    kept = {name: value for name, value in settings.items() if name not in transports}
    return {**kept, **ethernet}


def _mpirun(kind: str, size: VmSize, fabric: Fabric, job: Job) -> tuple[str, ...]:
    # A launcher without a row of its own has that of Open MPI.
    row = kind if kind in fabric.mpirun else "openmpi"
    width = job.processes_per_node
    arguments = fabric.mpirun_arguments(row, processes_per_node=width, size=size)
    if job.wanted is not None:
        # A task that shares its node has its own cores, which are unknown here.
        kept = list(arguments)
        for option in ("--map-by", "--bind-to"):
            if option in kept:
                at = kept.index(option)
                del kept[at : at + 2]
        return ("--map-by", f"ppr:{width}:node", "--bind-to", "none", *kept)
    by_numa = any(argument.startswith("ppr:") and ":numa" in argument for argument in arguments)
    if not by_numa or width % (size.numa_domains or 1) == 0:
        return arguments
    # If the ranks do not divide evenly among the NUMA domains, they would all be placed on the
    # first nodes: place them by node, and leave the cores to the kernel.
    at = arguments.index("--map-by") + 1
    by_node = (*arguments[:at], f"ppr:{width}:node", *arguments[at + 1 :])
    return (*by_node, "--bind-to", "none")
