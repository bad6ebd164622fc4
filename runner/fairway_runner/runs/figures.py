"""Use of a run's nodes: the samples in its folder, their means, and these in words."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from fairway_agent.figures import FOLDER
from fairway_agent.quick import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from fairway_runner.runs.folder import RunFolder

# What a node may be called, as it becomes a file's name here.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_LONGEST_LINE = 1 << 16  # bytes; a sample of sixteen GPUs has 2,000


@dataclass(frozen=True)
class Gpu:
    """A GPU at one moment: use as a share of 1, memory in bytes, power in watts, NVLink in bytes
    a second; None where its driver does not tell."""

    index: int
    use: float | None = None
    memory: float | None = None
    memory_total: float | None = None
    power: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None


@dataclass(frozen=True)
class Sample:
    """A node at one moment, `time` being seconds since 1970. `cpu` and `io_wait` are shares of 1:
    of all cores, and of the time in which something waited for a disk or a file system. Memory is
    in bytes, all else in bytes a second; None where the kernel does not tell."""

    time: float
    cpu: float | None = None
    io_wait: float | None = None
    memory: float | None = None
    memory_total: float | None = None
    disk_read: float | None = None
    disk_written: float | None = None
    received: float | None = None
    sent: float | None = None
    fabric_received: float | None = None
    fabric_sent: float | None = None
    fabric_limit: float | None = None
    gpus: tuple[Gpu, ...] = ()

    @property
    def gpu_use(self) -> float | None:
        """The mean of its GPUs, as a share of 1."""
        return mean(gpu.use for gpu in self.gpus)

    @property
    def fabric_use(self) -> float | None:
        """Used part of InfiniBand's speed, from 0 to 1, in the direction that is used more."""
        rates = [rate for rate in (self.fabric_sent, self.fabric_received) if rate is not None]
        return max(rates) / self.fabric_limit if rates and self.fabric_limit else None


_GPU = tuple(name for name in Gpu.__dataclass_fields__ if name != "index")
_SAMPLE = tuple(name for name in Sample.__dataclass_fields__ if name not in ("time", "gpus"))


def figures(run: RunFolder) -> dict[str, list[Sample]]:
    """The samples of each node by its name, in their order. What cannot be one is left out."""
    files = sorted((run.folder / FOLDER).glob("*.jsonl"))
    return {file.stem: list(_read(file)) for file in files}


def last_samples(run: RunFolder) -> dict[str, Sample]:
    """The last sample of each node by its name."""
    found = {}
    for file in sorted((run.folder / FOLDER).glob("*.jsonl")):
        for sample in _read(file, only_end=True):
            found[file.stem] = sample
    return found


def is_node_name(name: str) -> bool:
    """True if a node may have this name: the name comes from elsewhere, and names a file here."""
    return _NODE.fullmatch(name) is not None


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known; None if none are.

    >>> mean([1.0, None, 3.0]), mean([None])
    (2.0, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def in_words(samples: Sequence[Sample]) -> str:
    """Use of the nodes in all, in one line; "" where nothing was sampled.

    >>> in_words([Sample(0.0, cpu=0.25, io_wait=0.38)])
    'processors 25 % busy; 38 % of the time waiting for files'
    """
    parts = [
        ("GPUs {} busy", lambda sample: sample.gpu_use),
        ("processors {} busy", lambda sample: sample.cpu),
        ("{} of the time waiting for files", lambda sample: sample.io_wait),
        ("InfiniBand at {} of its speed", lambda sample: sample.fabric_use),
    ]
    return "; ".join(
        words.format(f"{value:.0%}".replace("%", " %"))
        for words, of in parts
        if (value := mean(map(of, samples))) is not None
    )


def _read(file: Path, *, only_end: bool = False) -> Iterator[Sample]:
    try:
        with file.open("rb") as lines:
            if only_end and (start := file.stat().st_size - _LONGEST_LINE) > 0:
                lines.seek(start)
                lines.readline()
            for line in lines:
                if len(line) < _LONGEST_LINE and (sample := _parsed(line)) is not None:
                    yield sample
    except FileNotFoundError:
        return


def _parsed(line: bytes) -> Sample | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None  # the disk was full, or it is being written
    if not isinstance(record, dict) or (time := _number(record, "time")) is None:
        return None
    listed = record.get("gpus")
    gpus = [
        Gpu(int(index), **{name: _number(gpu, name) for name in _GPU})
        for gpu in (listed if isinstance(listed, list) else [])
        if isinstance(gpu, dict) and (index := _number(gpu, "index")) is not None
    ]
    return Sample(time, **{name: _number(record, name) for name in _SAMPLE}, gpus=tuple(gpus))


def _number(record: dict[str, Any], name: str) -> float | None:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
