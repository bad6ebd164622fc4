"""Communication settings: the environment and the mpirun arguments that a size needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

    from fairway_core.catalog.sizes import VmSize


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A row of fabrics.toml: `environment` is set on every rank, `sharp` over it on request."""

    name: str
    source: str
    date: datetime.date
    environment: Mapping[str, str]
    mpirun: Mapping[str, tuple[str, ...]]
    sharp: Mapping[str, str] = field(default_factory=dict)

    def mpirun_arguments(
        self, mpi: str, *, processes_per_node: int, size: VmSize
    ) -> tuple[str, ...]:
        """Placement and transport arguments for that kind of MPI; none where it has no row.

        >>> from fairway_core.catalog import fabric_for, vm_size
        >>> hb = vm_size("Standard_HB176rs_v4")
        >>> fabric_for(hb).mpirun_arguments("hpcx", processes_per_node=8, size=hb)
        ('--map-by', 'ppr:2:numa:pe=22', '-report-bindings')
        """
        domains = size.numa_domains or 1
        processes_per_numa = max(1, processes_per_node // domains)
        values = {
            "processes_per_node": processes_per_node,
            "processes_per_numa": processes_per_numa,
            "cores_per_process": max(1, size.cores // domains // processes_per_numa),
        }
        return tuple(argument.format(**values) for argument in self.mpirun.get(mpi, ()))


def fabric_for(size: VmSize) -> Fabric:
    """The settings for nodes of that size."""
    return look_up(size.fabric, fabrics(), "fabric")


@cache
def socket_interfaces() -> Mapping[str, str]:
    """The variables by which each library is told its network interface, and that interface.

    >>> socket_interfaces()["GLOO_SOCKET_IFNAME"]
    'eth0'
    """
    row = table("fabrics")["interfaces"]
    return MappingProxyType(dict.fromkeys(row["variables"], row["name"]))


@cache
def infiniband_settings() -> Mapping[str, str]:
    """What is set on every rank of sizes with InfiniBand, whatever their series."""
    settings: dict[str, str] = table("fabrics")["infiniband"]["environment"]
    return MappingProxyType(settings)


@cache
def fabrics() -> Mapping[str, Fabric]:
    """All rows by name."""
    rows: dict[str, Fabric] = {}
    for name, row in table("fabrics")["fabric"].items():
        mpirun = {mpi: tuple(arguments) for mpi, arguments in row.pop("mpirun").items()}
        rows[name] = Fabric(name=name, mpirun=MappingProxyType(mpirun), **row)
    return MappingProxyType(rows)
