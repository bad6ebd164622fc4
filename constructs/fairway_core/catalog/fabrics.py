"""Communication settings of sizes: environment variables, mpirun arguments, and the location of
GPUs and adapters in a node."""

from __future__ import annotations

from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.catalog.sizes import VmSize


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A row of fabrics.toml: `environment` is set on every rank, `sharp` in addition on request."""

    name: str
    source: str
    date: datetime.date
    environment: Mapping[str, str]
    mpirun: Mapping[str, tuple[str, ...]]
    sharp: Mapping[str, str] = field(default_factory=dict)

    def mpirun_arguments(
        self, mpi: str, *, processes_per_node: int, size: VmSize
    ) -> tuple[str, ...]:
        """Returns placement and transport arguments for that kind of MPI, or none if it has no row.

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

    @property
    def topology(self) -> Topology | None:
        """The topology of nodes with this fabric, or None if the catalogue has none."""
        return topologies().get(self.environment.get("NCCL_TOPO_FILE", ""))


# PCI classes, and the ids of a switch, which is not visible in a VM and has no vendor.
_CLASSES = {"gpu": "0x030200", "adapter": "0x020700"}
_SWITCH = "0x060400"
_NO_MAKER = 'vendor="0x0000" device="0x0000" subsystem_vendor="0x0000" subsystem_device="0x0000"'


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A row of fabrics.toml: the location of a node's devices, for NCCL. `path` is the file's."""

    path: str
    source: str
    date: datetime.date
    cpu: Mapping[str, str | int]
    cores: int
    link_speed: str
    numa: Sequence[Mapping[str, Any]]

    def xml(self) -> str:
        """Returns the content of the file for NCCL_TOPO_FILE, with the attributes that NCCL needs.
        Its parser accepts neither a declaration nor a space before the end of an element. Source:
        NVIDIA/nccl 5067397, src/graph/xml.cc and topo.cc."""
        return "\n".join(['<system version="1">', *self._nodes(), "</system>", ""])

    def _nodes(self) -> Iterator[str]:
        vendor = " ".join(f'{name}="{value}"' for name, value in self.cpu.items())
        numbers = iter(range(1, 255))
        for node, row in enumerate(self.numa):
            where = f'numaid="{node}" affinity="{self._affinity(node)}"'
            yield f'  <cpu {where} arch="x86_64" {vendor}>'
            for devices in row.get("switches", ()):
                switch = self._link(f"ffff:ff:{next(numbers):02x}.0", _SWITCH)
                yield f"    <pci {switch} {_NO_MAKER}>"
                yield from (f"      {each}" for each in self._devices(devices))
                yield "    </pci>"
            yield from (f"    {each}" for each in self._devices(row.get("devices", ())))
            yield "  </cpu>"

    def _devices(self, devices: Sequence[Mapping[str, str]]) -> Iterator[str]:
        for device in devices:
            for kind, bus in device.items():
                yield f"<pci {self._link(bus, _CLASSES[kind])}/>"

    def _link(self, bus: str, kind: str) -> str:
        link = f'link_speed="{self.link_speed}" link_width="16"'
        return f'busid="{bus}" class="{kind}" {link}'

    def _affinity(self, node: int) -> str:
        """Returns the node's cores as the kernel's CPU mask: 32-bit words, the highest first."""
        mask = ((1 << self.cores) - 1) << (node * self.cores)
        words = -(-self.cores * len(self.numa) // 32)
        return ",".join(
            f"{mask >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words))
        )


@cache
def topologies() -> Mapping[str, Topology]:
    """Returns all topologies by the paths of their files."""
    rows = table("fabrics")["topology"]
    return MappingProxyType({path: Topology(path=path, **row) for path, row in rows.items()})


def fabric_for(size: VmSize) -> Fabric:
    """Returns the settings for nodes of that size."""
    return look_up(size.fabric, fabrics(), "fabric")


@cache
def socket_interfaces() -> Mapping[str, str]:
    """Returns the environment variables that set libraries' network interface, with its name."""
    row = table("fabrics")["interfaces"]
    return MappingProxyType(dict.fromkeys(row["variables"], row["name"]))


@cache
def infiniband_settings() -> Mapping[str, str]:
    """Returns the environment variables of every rank on sizes with InfiniBand of any series."""
    settings: dict[str, str] = table("fabrics")["infiniband"]["environment"]
    return MappingProxyType(settings)


@cache
def fabrics() -> Mapping[str, Fabric]:
    """Returns all rows by name."""
    rows: dict[str, Fabric] = {}
    for name, row in table("fabrics")["fabric"].items():
        mpirun = {mpi: tuple(arguments) for mpi, arguments in row["mpirun"].items()}
        rows[name] = Fabric(name=name, **row | {"mpirun": MappingProxyType(mpirun)})
    return MappingProxyType(rows)
