"""The GPUs and cores of this node, and which of them lie beside each other.

Started as a program it prints them as JSON, for the host that lends them. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.fields import Fields
from fairway_agent.share import devices_in, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUERY = ("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader")
_PATIENCE = 60.0  # seconds: a driver that is not loaded yet takes its time
_MOST = 4096


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by its number, and the cores that are nearest to it; none where that is not known."""

    index: int
    near: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """The GPUs of a node, and the cores that tasks may have, of `processors` in all."""

    gpus: tuple[Gpu, ...]
    cores: tuple[int, ...]
    processors: int

    @classmethod
    def from_json(cls, facts: object) -> Devices:
        """Unfit for what is none."""
        fields = Fields(facts, "the node's devices")
        gpus = [Fields(each, "a GPU") for each in fields.each("gpus")[:_MOST]]
        found = tuple(Gpu(each.count("index"), devices_in(each, "near")) for each in gpus)
        cores = devices_in(fields, "cores")
        if not cores:
            raise fields.unfit("cores")
        return cls(found, cores, max(fields.count("processors"), max(cores) + 1))

    def to_json(self) -> dict[str, object]:
        """As the program prints it."""
        gpus = [{"index": gpu.index, "near": gpu.near} for gpu in self.gpus]
        return {"gpus": gpus, "cores": self.cores, "processors": self.processors}


def look(root: Path = Path("/")) -> Devices:
    """Those of this node. Where this process may see some GPUs only, by CUDA_VISIBLE_DEVICES, these
    are all; `root` may be a folder that holds another sys/ and dev/ to read."""
    gpus = tuple(_nvidia(root)) or tuple(_amd(root))
    with suppress(ValueError):  # names of GPUs, which no number is taken from
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        allowed = None if visible is None else numbers_of(visible)
        gpus = tuple(gpu for gpu in gpus if allowed is None or gpu.index in allowed)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Devices(gpus, cores, max(os.cpu_count() or 1, cores[-1] + 1))


def _nvidia(root: Path) -> Iterator[Gpu]:
    """By nvidia-smi; where there is none, as in some containers, by the device files."""
    if shutil.which(_QUERY[0]) is None:
        yield from map(Gpu, device_files(root / "dev"))
        return
    try:
        done = subprocess.run(
            _QUERY, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        index, _, address = (word.strip() for word in line.partition(","))
        if index.isdecimal():
            # 8 digits before the first colon, of which the kernel writes the last 4.
            yield Gpu(int(index), _near(root, address[-12:].lower()))


def device_files(folder: Path = Path("/dev")) -> list[int]:
    """The numbers of NVIDIA's GPUs that have files of devices there."""
    files = folder.glob("nvidia[0-9]*")
    return sorted(int(file.name[6:]) for file in files if file.name[6:].isdecimal())


def _amd(root: Path) -> Iterator[Gpu]:
    """Source: the kernel's KFD topology, in whose order ROCm counts; a node without `gpu_id` is a
    processor."""
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
    """The cores beside a device of the PCI bus; none where the kernel does not say."""
    with suppress(OSError, ValueError):
        path = root / "sys/bus/pci/devices" / address.replace("/", "") / "local_cpulist"
        return numbers_of(path.read_text())
    return ()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look().to_json()) + "\n")
