"""What a node's kernel says of its use: processors, memory, disks, network, InfiniBand.

Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTOR = 512  # bytes of /proc/diskstats, whatever the disk's own are
_WORD = 4  # bytes of a unit of port_xmit_data and port_rcv_data
_MICROSECONDS = 1e6


@dataclass
class Machine:
    """A node's use between two looks; `proc` and `sys` are where its kernel tells of it."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    _before: dict[str, float] = field(default_factory=dict)
    _at: float = 0.0

    def sample(self, now: float) -> dict[str, float]:
        """The use since the look before, `now` being the time on the monotonic clock.

        `cpu` and `io_wait` are shares of 1, memory is in bytes, all else in bytes a second. What
        the kernel does not tell is left out, as are all rates at the first look.
        """
        counters = self._counters()
        seconds, before = now - self._at, self._before
        self._before, self._at = counters, now
        found = self._memory()
        if speed := sum(self._port_speeds()):
            found["fabric_limit"] = speed
        if not before or seconds <= 0:
            return found
        # A counter that has gone back belongs to a device that is another by now.
        grown = {
            name: max(0.0, value - before[name])
            for name, value in counters.items()
            if name in before
        }
        if total := grown.pop("cpu_total", 0.0):
            found["cpu"] = grown.pop("cpu_busy", 0.0) / total
        if "io_wait" in grown:
            found["io_wait"] = min(1.0, grown.pop("io_wait") / seconds)
        return found | {name: value / seconds for name, value in grown.items()}

    def _counters(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for part in (self._cpu, self._pressure, self._disks, self._network, self._fabric):
            with suppress(OSError, ValueError, IndexError):
                found |= part()
        return found

    def _cpu(self) -> dict[str, float]:
        """Source: proc_stat(5). Guests' time is in user's and nice's already."""
        words = (self.proc / "stat").read_text().split("\n", 1)[0].split()
        times = [float(word) for word in words[1:9]]
        return {"cpu_total": sum(times), "cpu_busy": sum(times) - times[3] - times[4]}

    def _pressure(self) -> dict[str, float]:
        """Seconds in which something waited for a disk or a file system.

        Source: docs.kernel.org/accounting/psi.html; kernels without it have no such file.
        """
        line = (self.proc / "pressure/io").read_text().split("\n", 1)[0]
        return {"io_wait": float(line.rpartition("total=")[2]) / _MICROSECONDS}

    def _disks(self) -> dict[str, float]:
        """Source: docs.kernel.org/admin-guide/iostats.html. Whole disks with a device of their
        own: what is made of them, as a partition or a RAID, would count twice."""
        read = written = 0.0
        for line in (self.proc / "diskstats").read_text().splitlines():
            words = line.split()
            if (self.sys / "block" / words[2] / "device").exists():
                read += float(words[5])
                written += float(words[9])
        return {"disk_read": read * _SECTOR, "disk_written": written * _SECTOR}

    def _network(self) -> dict[str, float]:
        """Source: proc_pid_net(5), and `master` of the kernel's ABI/testing/sysfs-class-net.

        An adapter that belongs to another device, as with Azure's accelerated networking, counts
        with that one; those of a bond or a bridge, which is no device, count themselves. Where
        there is no device, all count.
        """
        found: dict[str, list[str]] = {}
        for line in (self.proc / "net/dev").read_text().splitlines()[2:]:
            name, _, rest = line.partition(":")
            found[name.strip()] = rest.split()
        adapters = {name: self.sys / "class/net" / name for name in found if name != "lo"}
        devices = {name for name, path in adapters.items() if (path / "device").exists()}
        masters = {name: (adapters[name] / "master").resolve().name for name in devices}
        used = [name for name in devices if masters[name] not in devices]
        chosen = [found[name] for name in used or adapters]
        return {
            "received": sum(float(words[0]) for words in chosen),
            "sent": sum(float(words[8]) for words in chosen),
        }

    def _fabric(self) -> dict[str, float]:
        """Source: the kernel's Documentation/ABI/stable/sysfs-class-infiniband."""
        ports = list(self._ports())
        if not ports:
            return {}
        names = {"fabric_received": "port_rcv_data", "fabric_sent": "port_xmit_data"}
        return {
            name: sum(float((port / "counters" / file).read_text()) for port in ports) * _WORD
            for name, file in names.items()
        }

    def _port_speeds(self) -> Iterator[float]:
        """What each port could carry, in bytes a second."""
        for port in self._ports():
            with suppress(OSError, ValueError, IndexError):
                # As `400 Gb/sec (4X NDR)`.
                yield float((port / "rate").read_text().split()[0]) * 1e9 / 8

    def _ports(self) -> Iterator[Path]:
        """The ports of InfiniBand: adapters of Ethernet are in the same folder."""
        for port in sorted((self.sys / "class/infiniband").glob("*/ports/*")):
            with suppress(OSError):
                if (port / "link_layer").read_text().strip() == "InfiniBand":
                    yield port

    def _memory(self) -> dict[str, float]:
        """Source: proc_meminfo(5)."""
        try:
            lines = (self.proc / "meminfo").read_text().splitlines()
            sizes = {name: float(rest.split()[0]) for name, rest in (x.split(":") for x in lines)}
            total, free = sizes["MemTotal"] * 1024, sizes["MemAvailable"] * 1024
        except (OSError, ValueError, IndexError, KeyError):
            return {}
        return {"memory": total - free, "memory_total": total}
