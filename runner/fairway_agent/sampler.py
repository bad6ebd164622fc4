"""Samples this node every few seconds, for as long as its parent lives.

Started as `sampler RUN_FOLDER SECONDS [PARENT]`; appends lines of JSON to `figures/NODE.jsonl` in
the run's folder. If nodes share no folder, RUN_FOLDER is `-`: lines go to standard output, and each
names its node. It ends on SIGTERM, and with the process PARENT, by default the one that started it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from fairway_agent import processes
from fairway_agent.quick import dataclass
from fairway_agent.spec import FIGURES
from fairway_boot.files import try_lock

_SECTOR = 512  # bytes in /proc/diskstats, whatever the disk's sector size
_WORD = 4  # bytes per unit of port_xmit_data and port_rcv_data
_MICROSECONDS = 1e6


@dataclass
class Machine:
    """A node's use between two samples; `proc` and `sys` are the kernel's folders to read."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    _before: dict[str, float] = field(default_factory=dict)
    _at: float = 0.0

    def sample(self, now: float) -> dict[str, float]:
        """Returns the use since the previous sample, `now` being the time on the monotonic clock.
        `cpu` and `io_wait` are fractions, memory is in bytes, all else in bytes per second. Values
        that the kernel does not report are left out, as are all rates in the first sample."""
        counters: dict[str, float] = {}
        for part in (self._cpu, self._pressure, self._disks, self._network, self._fabric):
            with suppress(OSError, ValueError, IndexError):
                counters |= part()
        seconds, before = now - self._at, self._before
        self._before, self._at = counters, now
        found = self._memory()
        for port in self._ports():
            with suppress(OSError, ValueError, IndexError):
                speed = float((port / "rate").read_text().split()[0])  # e.g. `400 Gb/sec (4X NDR)`
                found["fabric_limit"] = found.get("fabric_limit", 0.0) + speed * 1e9 / 8
        if not before or seconds <= 0:
            return found
        # A counter that has decreased belongs to a replaced device.
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

    def _cpu(self) -> dict[str, float]:
        """Source: proc_stat(5). Guests' time is included in user's and nice's already."""
        words = (self.proc / "stat").read_text().split("\n", 1)[0].split()
        times = [float(word) for word in words[1:9]]
        return {"cpu_total": sum(times), "cpu_busy": sum(times) - times[3] - times[4]}

    def _pressure(self) -> dict[str, float]:
        """Returns the seconds in which something waited for a disk or a file system. Source:
        docs.kernel.org/accounting/psi.html; kernels without it have no such file."""
        line = (self.proc / "pressure/io").read_text().split("\n", 1)[0]
        return {"io_wait": float(line.rpartition("total=")[2]) / _MICROSECONDS}

    def _disks(self) -> dict[str, float]:
        """Source: docs.kernel.org/admin-guide/iostats.html. Counts physical disks only: partitions
        and RAIDs on them would count twice."""
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
        with that one; those of a bond or a bridge, which is no device, count themselves. If there
        is no device, all count.
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
        if not (ports := list(self._ports())):
            return {}
        names = {"fabric_received": "port_rcv_data", "fabric_sent": "port_xmit_data"}
        return {
            name: sum(float((port / "counters" / file).read_text()) for port in ports) * _WORD
            for name, file in names.items()
        }

    def _ports(self) -> Iterator[Path]:
        """Yields the InfiniBand ports; Ethernet adapters are in the same folder."""
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


_GRACE = 10.0  # seconds for other nodes' samplers to end


def sampler(run: Path | None, seconds: float, parent: int | None = None) -> list[str]:
    """Returns the command line that samples this node, into the run's folder or to its output. The
    sampler ends with the process `parent`, which has to start it directly; otherwise with the
    process that started it, which it learns only once Python runs."""
    words = [*processes.program("fairway_agent.sampler"), str(run or "-"), f"{seconds:g}"]
    return words if parent is None else [*words, str(parent)]


@dataclass
class Sampling:
    """Sampler of a task's nodes, started after the first seconds. It takes a sample every
    `seconds`, none if that is None. `words` returns the command line that runs a sampler on each
    node, and is called when it starts; `environment` is that of the command, without the `hidden`
    variables. Its output is appended to the file `printed`, if given."""

    seconds: float | None = None
    words: Callable[[float], list[str]] = lambda _: []
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: Collection[str] = ()
    printed: Path | None = None
    begun: float = field(default_factory=time.monotonic)
    process: subprocess.Popen[bytes] | None = None
    failed: bool = False

    @property
    def pid(self) -> int:
        """Id of the sampler's process; 0 before it is started."""
        return 0 if self.process is None else self.process.pid

    def due(self) -> float | None:
        """Returns when to start it, on the monotonic clock; None if it was, or must not be."""
        if self.process is not None or self.failed or self.seconds is None:
            return None
        return self.begun + self.seconds

    def keep(self) -> None:
        """Starts the sampler when it is due."""
        due = self.due()
        if self.seconds is None or due is None or time.monotonic() < due:
            return
        try:
            with open(self.printed or os.devnull, "ab") as out:  # noqa: PTH123
                self.process = subprocess.Popen(
                    self.words(self.seconds),
                    env={n: v for n, v in self.environment.items() if n not in self.hidden},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError:
            self.failed = True  # the task continues without samples

    def wait_for(self, process: subprocess.Popen[bytes]) -> int:
        """Samples while the process runs, and returns its exit code."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.seconds)
        self.keep()
        code = process.wait()
        self.end()
        return code

    def end(self) -> None:
        self.failed = True
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


_MANY = 8640  # samples, one day of them: after that they are taken less often
SLOWER = 6
"""The factor by which samples are further apart then."""


def node_name() -> str:
    """Returns this node's name, as its engine or else its kernel gives it."""
    variables = ("_FAIRWAY_NODE", "SLURMD_NODENAME", "AZ_BATCH_NODE_ID")
    names = (os.environ.get(name) for name in variables)
    return next(filter(None, names), os.uname().nodename)


def main() -> None:
    run, seconds = sys.argv[1], float(sys.argv[2])
    parent = int(sys.argv[3]) if len(sys.argv) > 3 else os.getppid()
    # Signals must also end the programs that watch the GPUs.
    wakeup, _ = processes.signal_wakeups(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    node, count, lock = node_name(), 0, None
    file = Path(run, FIGURES, f"{node}.jsonl")
    if run != "-":
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError:
            return
    from fairway_boot.gpus import Gpus  # starting the sampler needs none

    machine, gpus = Machine(), Gpus(seconds)
    gpus.start()
    try:
        machine.sample(time.monotonic())
        while True:
            pause = seconds if count < _MANY else seconds * SLOWER
            if select.select([wakeup], [], [], pause)[0] or os.getppid() != parent:
                return
            count += 1
            # A full disk, or an unreadable file of the kernel's, only loses samples.
            with suppress(OSError):
                rates = {name: round(n, 4) for name, n in machine.sample(time.monotonic()).items()}
                sample = {"time": round(time.time(), 3), **rates, "gpus": gpus.sample()}
                if run == "-":
                    # One write, because several nodes' samplers share this output.
                    os.write(1, _line({"node": node, **sample}))
                    continue
                # Only one of the run's tasks on a node writes: when it ends, another takes over.
                lock = lock or try_lock(file)
                if lock is not None:
                    with file.open("ab") as lines:
                        lines.write(_line(sample))
    finally:
        gpus.stop()


def _line(sample: dict[str, Any]) -> bytes:
    return json.dumps(sample, separators=(",", ":")).encode("ascii") + b"\n"


if __name__ == "__main__":
    main()
