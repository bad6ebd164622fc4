"""GPUs and cores of a node: which exist, what a task asks for, and its share of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, JsonRecord

if TYPE_CHECKING:
    from fractions import Fraction

# Launchers that bind their ranks themselves would all start at the node's first core, even if the
# task has others: Open MPI 4 and 5, Intel MPI, MVAPICH 2 and 3.
_UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_PIN": "off",
    "MV2_ENABLE_AFFINITY": "0",
    "MVP_ENABLE_AFFINITY": "0",
}
FIRST_GPU = 1 << 16
GPUS, CORES, PORTS = "FAIRWAY_GPUS", "FAIRWAY_CORES", "FAIRWAY_PORTS"
SHARE_FILE = "share.txt"
"""File in which a task says what it has, for those who have no other way to know."""
_MOST = 4096  # devices of a kind
_FIRST_PORT, _END_OF_PORTS = 10_000, 32_768  # see `ports_beside`


class NeverFits(Exception):
    """Error for a request larger than any node, whatever else runs there; the text says so."""


@dataclass(frozen=True, slots=True)
class ResourceRequest(JsonRecord, label="the resource request"):
    """GPUs and cores of its node that a task asks for. Without a number of cores it gets those that
    go with its GPUs; without a number of GPUs it gets none."""

    gpus: int | None = None
    cores: int | None = None

    @classmethod
    def of(cls, gpus: int | None, cores: int | None) -> ResourceRequest | None:
        """Returns the share that a task asks for; None, for entire nodes, if it names neither."""
        return None if gpus is None and cores is None else cls(gpus, cores)

    def cores_of(self, cores: int, gpus: int) -> int:
        """Returns how many of a node's cores the task gets: by default its fraction of the GPUs,
        and none if there are more GPUs than cores.

        >>> ResourceRequest(gpus=1).cores_of(96, 8)
        12
        >>> ResourceRequest(gpus=2, cores=3).cores_of(96, 8)
        3
        """
        if self.cores is not None:
            return self.cores
        return cores * (self.gpus or 0) // max(1, gpus)

    def node_fraction_of(self, cores: int, gpus: int) -> Fraction:
        """Returns the fraction of a node that the task takes, of the resource of which it takes
        most.

        >>> float(ResourceRequest(gpus=1).node_fraction_of(96, 8))
        0.125
        >>> float(ResourceRequest(gpus=1, cores=48).node_fraction_of(96, 8))
        0.5
        """
        from fractions import Fraction  # slow to import

        of_gpus = Fraction(self.gpus or 0, max(1, gpus))
        return min(Fraction(1), max(of_gpus, Fraction(self.cores_of(cores, gpus), max(1, cores))))

    def __str__(self) -> str:
        return " and ".join(
            f"{count} {name}{'s' * (count != 1)}"
            for count, name in ((self.gpus, "GPU"), (self.cores, "core"))
            if count is not None
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Share of a node allocated to a task: the numbers of its GPUs and cores, the fraction of the
    node (of the resource of which it has most), and the first and last port of a range that no
    other share of the node has. Cores are left out if another program keeps the task on its own.
    `lock` is the descriptor that holds the share, if this process does."""

    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    node_fraction: float
    ports: tuple[int, int]
    lock: int = field(default=-1, compare=False)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of each of its devices, unique on the node."""
        return (*self.cores, *(FIRST_GPU + gpu for gpu in self.gpus))

    def environment(self) -> dict[str, str]:
        """Returns the variables that tell programs their share, GPUs by nvidia-smi's numbers."""
        gpus, (first, last) = ",".join(map(str, self.gpus)), self.ports
        return {
            **_UNBOUND,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": gpus,
            "ROCR_VISIBLE_DEVICES": gpus,
            GPUS: gpus,
            CORES: ranges(self.cores),
            PORTS: f"{first}-{last}",
        }

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Pins programs that this thread starts in the block to the share's cores."""
        before = os.sched_getaffinity(0)
        pin(self.cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Allocation(JsonRecord, label="the allocation"):
    """Allocation on a node, as recorded by an attempt of a task: see `Share`."""

    attempt: int
    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    node_fraction: float

    def check(self, found: Fields) -> None:
        if not 0 < self.node_fraction <= 1:
            raise found.invalid("node_fraction")
        for name in ("gpus", "cores"):
            devices_in(found, name)


def devices_in(fields: Fields, name: str) -> tuple[int, ...]:
    """Parses the field's device numbers. Raises InvalidRecord for anything else."""
    found = fields.each(name)
    if len(found) <= _MOST and all(type(each) is int and 0 <= each < _MOST for each in found):
        return tuple(found)
    raise fields.invalid(name)


def ports_beside(slots: Sequence[int], most: int) -> tuple[int, int]:
    """Returns the range of ports that goes with these of a node's `most` slots. Each slot has as
    many; the range consists of those of the first consecutive slots.

    >>> ports_beside([12, 13, 40], 104)
    (12616, 13051)
    """
    width = (_END_OF_PORTS - _FIRST_PORT) // most
    first = _FIRST_PORT + slots[0] * width
    row = next((n for n, slot in enumerate(slots) if slot != slots[0] + n), len(slots))
    return first, first + row * width - 1


def pin(cores: Sequence[int]) -> None:
    """Pins this process, and what it starts from now on, to the cores."""
    with suppress(OSError):  # they were taken from the node: run without pinning
        os.sched_setaffinity(0, cores)


def own_cores() -> tuple[int, ...]:
    """Returns the cores that a scheduler has pinned this process to; none if it may use all of the
    node's: then its share of processor time is enforced in another way, or not at all."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return () if len(cores) == os.cpu_count() else cores


def ports_of(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Returns a task's own range of ports; None if it has entire nodes."""
    first, _, last = environment.get(PORTS, "").partition("-")
    return (int(first), int(last)) if last else None


def ranges(numbers: Sequence[int]) -> str:
    """Formats ascending numbers as taskset and /sys do.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


def numbers_of(text: str, most: int = _MOST) -> tuple[int, ...]:
    """Parses a text of `ranges`. Raises ValueError for any other, and for more than `most` numbers.

    >>> numbers_of("0-2,5,7-8"), numbers_of("")
    ((0, 1, 2, 5, 7, 8), ())
    """
    found: list[int] = []
    for each in filter(None, text.strip().split(",")):
        first, dash, last = each.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal():
            raise ValueError(f"not a list of numbers: {text[:40]!r}")
        if len(found) + int(last) - int(first) >= most:
            raise ValueError(f"more than {most:,} numbers: {text[:40]!r}")
        found += range(int(first), int(last) + 1)
    return tuple(found)


_QUERY = ("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader")
_PATIENCE = 60.0  # seconds: a driver may have to be loaded first


@dataclass(frozen=True, slots=True)
class Gpu(JsonRecord, label="a GPU"):
    """A GPU by its number, and the cores nearest to it; none if these are unknown."""

    index: int
    near: tuple[int, ...] = ()

    def check(self, found: Fields) -> None:
        devices_in(found, "near")


@dataclass(frozen=True, slots=True)
class Devices(JsonRecord, label="the node's devices"):
    """The GPUs of a node, and the cores that tasks may use, of `processors` in all."""

    gpus: tuple[Gpu, ...]
    cores: tuple[int, ...]
    processors: int

    def check(self, found: Fields) -> None:
        if not devices_in(found, "cores") or max(self.cores) >= self.processors:
            raise found.invalid("cores")


def look(root: Path = Path("/")) -> Devices:
    """Detects the devices of this node; `root` may be a folder with another sys/ and dev/ to read.
    If CUDA_VISIBLE_DEVICES restricts this process to some GPUs, only those count."""
    gpus = tuple(_nvidia(root)) or tuple(_amd(root))
    with suppress(ValueError):  # UUIDs of GPUs, which cannot be mapped to numbers
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        allowed = None if visible is None else numbers_of(visible)
        gpus = tuple(gpu for gpu in gpus if allowed is None or gpu.index in allowed)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Devices(gpus, cores, max(os.cpu_count() or 1, cores[-1] + 1))


def _nvidia(root: Path) -> Iterator[Gpu]:
    """Yields the GPUs that nvidia-smi lists; those with device files if a container lacks it."""
    if shutil.which(_QUERY[0]) is None:
        yield from map(Gpu, device_files(root / "dev"))
        return
    try:
        done = subprocess.run(
            _QUERY, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        index, _, address = (word.strip() for word in line.partition(","))
        if index.isdecimal():
            # The domain has 8 digits, of which the kernel writes the last 4.
            yield Gpu(int(index), _near(root, address[-12:].lower()))


def device_files(folder: Path = Path("/dev")) -> list[int]:
    """Returns the numbers of NVIDIA's GPUs with device files there."""
    files = folder.glob("nvidia[0-9]*")
    return sorted(int(file.name[6:]) for file in files if file.name[6:].isdecimal())


def _amd(root: Path) -> Iterator[Gpu]:
    """Reads the kernel's KFD topology, ROCm's order; a node without `gpu_id` is a processor."""
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*")
    index = 0
    for node in sorted(nodes, key=lambda each: (len(each.name), each.name)):
        with suppress(OSError, ValueError):
            if int((node / "gpu_id").read_text()) == 0:
                continue
            words = dict(
                line.split(maxsplit=1) for line in (node / "properties").read_text().splitlines()
            )
            place = int(words["location_id"])
            address = f"{int(words.get('domain', '0')):04x}:{place >> 8:02x}:"
            yield Gpu(index, _near(root, f"{address}{place >> 3 & 31:02x}.{place & 7}"))
            index += 1


def _near(root: Path, address: str) -> tuple[int, ...]:
    """Returns the cores next to a PCI device; none if the kernel does not say."""
    with suppress(OSError, ValueError):
        path = root / "sys/bus/pci/devices" / address.replace("/", "") / "local_cpulist"
        return numbers_of(path.read_text())
    return ()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look().to_json()) + "\n")
