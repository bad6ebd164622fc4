"""Load of a node's GPUs: NVIDIA's from nvidia-smi and DCGM, AMD's from their driver.

NVIDIA's programs keep running and print a line per GPU at each interval, which costs a fraction of
starting one each time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEBIBYTE = 1 << 20
_MICROWATTS = 1e6
_PATIENCE = 30.0  # seconds for a program that prints once and exits
_LONGEST = 1 << 20  # bytes without a line break, from an unexpected program

# Fields of `nvidia-smi --help-query-gpu`, with our names and units.
_NVIDIA = (
    ("utilization.gpu", "use", 0.01),
    ("memory.used", "memory", _MEBIBYTE),
    ("memory.total", "memory_total", _MEBIBYTE),
    ("power.draw", "power", 1.0),
)
# DCGM_FI_PROF_NVLINK_TX_BYTES and …_RX_BYTES of dcgm_fields.h, in bytes per second.
_DCGM = ((1011, "nvlink_sent"), (1012, "nvlink_received"))

Gpu = dict[str, float]


def nvidia_line(line: str) -> tuple[int, Gpu] | None:
    """Parses a line of `nvidia-smi --format=csv,noheader,nounits`; `[N/A]` means not reported.

    >>> nvidia_line("3, 97, 70123, 81559, 643.21")
    (3, {'use': 0.97, 'memory': 73529294848.0, 'memory_total': 85520809984.0, 'power': 643.21})
    """
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(_NVIDIA) + 1 or not words[0].isdecimal():
        return None
    found = {}
    for word, (_, name, unit) in zip(words[1:], _NVIDIA, strict=True):
        with suppress(ValueError):
            found[name] = round(float(word) * unit, 3)
    return int(words[0]), found


def dcgm_line(line: str) -> tuple[int, Gpu] | None:
    """Parses a line of `dcgmi dmon`, whose first word is the kind of entity.

    >>> dcgm_line("GPU 0     1024000        2048000")
    (0, {'nvlink_sent': 1024000.0, 'nvlink_received': 2048000.0})
    """
    words = line.split()
    if len(words) != len(_DCGM) + 2 or words[0] != "GPU" or not words[1].isdecimal():
        return None
    found = {}
    for word, (_, name) in zip(words[2:], _DCGM, strict=True):
        with suppress(ValueError):
            found[name] = float(word)
    return int(words[1]), found


def current_load(sys: Path = Path("/sys")) -> dict[int, float | None] | None:
    """Returns the current load of each GPU as a fraction, None for one that does not report it;
    None for all if a program that should report fails, and nothing if there are no GPUs."""
    if shutil.which("nvidia-smi") is None:
        return {index: gpu.get("use") for index, gpu in enumerate(_amd(sys))}
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            _nvidia_words(), capture_output=True, timeout=_PATIENCE, check=True, text=True
        )
        found = filter(None, map(nvidia_line, done.stdout.splitlines()))
        use = {index: gpu.get("use") for index, gpu in found}
        # Other output is not understood.
        return use if use or "No devices" in done.stdout else None
    return None


def _nvidia_words() -> list[str]:
    fields = ",".join(["index", *(name for name, _, _ in _NVIDIA)])
    return ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]


@dataclass
class Stream:
    """A program that prints a line per GPU again and again; `gpus` has the last line of each."""

    words: list[str]
    parse: Callable[[str], tuple[int, Gpu] | None]
    gpus: dict[int, Gpu] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _rest: bytes = b""

    def start(self) -> None:
        """Starts the program, if this node has it."""
        if shutil.which(self.words[0]) is None:
            return
        with suppress(OSError):
            self._process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)

    def look(self) -> dict[int, Gpu]:
        """Returns the last line of each GPU; nothing once the program has ended."""
        if self._process is None or self._process.stdout is None:
            return {}
        with suppress(BlockingIOError):
            while data := os.read(self._process.stdout.fileno(), 65536):
                *lines, self._rest = (self._rest + data).split(b"\n")
                self._rest = self._rest[-_LONGEST:]
                for line in lines:
                    found = self.parse(line.decode(errors="replace"))
                    if found is not None:
                        self.gpus[found[0]] = found[1]
            self.stop()
            self.gpus.clear()
        return self.gpus

    def stop(self) -> None:
        """Ends the program."""
        if self._process is not None:
            with self._process:
                self._process.kill()
            self._process = None


@dataclass
class Gpus:
    """All GPUs of a node, sampled every `seconds`."""

    seconds: float
    sys: Path = Path("/sys")
    streams: list[Stream] = field(default_factory=list)

    def start(self) -> None:
        """Starts the programs that report on them."""
        period = str(max(1, round(self.seconds)))
        dcgm = ["dcgmi", "dmon", "-e", ",".join(str(number) for number, _ in _DCGM)]
        self.streams = [
            Stream([*_nvidia_words(), "-l", period], nvidia_line),
            Stream([*dcgm, "-d", str(int(period) * 1000)], dcgm_line),
        ]
        for stream in self.streams:
            stream.start()

    def sample(self) -> list[dict[str, Any]]:
        """Returns each GPU's number and its known values: `use` as a fraction, memory in bytes,
        power in watts, NVLink in bytes per second."""
        found: dict[int, Gpu] = {}
        for stream in self.streams:
            for index, gpu in stream.look().items():
                found[index] = {**found.get(index, {}), **gpu}
        if not found:
            found = dict(enumerate(_amd(self.sys)))
        return [{"index": index, **found[index]} for index in sorted(found)]

    def stop(self) -> None:
        """Ends these programs."""
        for stream in self.streams:
            stream.stop()


def _amd(sys: Path) -> Iterator[Gpu]:
    """Yields each GPU's values. Source: docs.kernel.org/gpu/amdgpu/thermal.html and
    …/driver-misc.html."""
    for busy in sorted((sys / "class/drm").glob("card*/device/gpu_busy_percent")):
        device = busy.parent
        files = {
            "use": (busy, 0.01),
            "memory": (device / "mem_info_vram_used", 1.0),
            "memory_total": (device / "mem_info_vram_total", 1.0),
        }
        for power in sorted(device.glob("hwmon/hwmon*/power1_average")):
            files["power"] = (power, 1 / _MICROWATTS)
        found = {}
        for name, (file, unit) in files.items():
            with suppress(OSError, ValueError):
                found[name] = float(file.read_text()) * unit
        yield found
