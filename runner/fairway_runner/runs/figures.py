"""Use of a run's nodes: the samples in its folder, their means, and a summary in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, InvalidRecord, JsonRecord, Moment
from fairway_agent.spec import FIGURES

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder

# Permitted names of nodes, which become file names here.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_LONGEST_LINE = 1 << 16  # bytes; a sample of sixteen GPUs has about 2,000


def _known(found: Fields, name: str) -> float | None:
    try:
        return found.or_none(name, found.span)
    except InvalidRecord:
        return None


Known = Annotated[float | None, _known]
"""A number that is not negative; anything else becomes None."""


@dataclass(frozen=True)
class Gpu(JsonRecord):
    """A GPU at one moment: use as a fraction, memory in bytes, power in watts, NVLink in bytes per
    second; None if its driver does not report it."""

    index: int
    use: Known = None
    memory: Known = None
    memory_total: Known = None
    power: Known = None
    nvlink_sent: Known = None
    nvlink_received: Known = None


@dataclass(frozen=True)
class Sample(JsonRecord):
    """A node at one moment, `time` being seconds since 1970. `cpu` and `io_wait` are fractions: of
    all cores, and of the time in which something waited for a disk or a file system. Memory is in
    bytes, all else in bytes per second; None if the kernel does not report it."""

    time: Moment
    cpu: Known = None
    io_wait: Known = None
    memory: Known = None
    memory_total: Known = None
    disk_read: Known = None
    disk_written: Known = None
    received: Known = None
    sent: Known = None
    fabric_received: Known = None
    fabric_sent: Known = None
    fabric_limit: Known = None
    gpus: tuple[Gpu, ...] = ()

    @property
    def gpu_use(self) -> float | None:
        """Mean use of its GPUs, as a fraction."""
        return mean(gpu.use for gpu in self.gpus)

    @property
    def fabric_use(self) -> float | None:
        """Used fraction of InfiniBand's speed, in the busier direction."""
        rates = [rate for rate in (self.fabric_sent, self.fabric_received) if rate is not None]
        return max(rates) / self.fabric_limit if rates and self.fabric_limit else None


def figures(run: RunFolder) -> dict[str, list[Sample]]:
    """Returns the samples of each node by its name, in order. Invalid lines are left out."""
    files = sorted((run.folder / FIGURES).glob("*.jsonl"))
    return {file.stem: list(_read(file)) for file in files}


def last_samples(run: RunFolder) -> dict[str, Sample]:
    """Returns the last sample of each node by its name."""
    files = sorted((run.folder / FIGURES).glob("*.jsonl"))
    return {file.stem: sample for file in files for sample in _read(file, only_end=True)}


def is_node_name(name: str) -> bool:
    """Returns True if a node may have this name from elsewhere, which names a file here."""
    return _NODE.fullmatch(name) is not None


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the known values; None if there are none.

    >>> mean([1.0, None, 3.0]), mean([None])
    (2.0, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def summarize_use(samples: Sequence[Sample]) -> str:
    """Summarises the use of all nodes in one line; "" if nothing was sampled.

    >>> summarize_use([Sample(0.0, cpu=0.25, io_wait=0.38)])
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
                # The disk may have been full, and the last line is perhaps still being written.
                with suppress(ValueError, RecursionError, InvalidRecord):
                    if len(line) < _LONGEST_LINE:
                        yield Sample.from_json(json.loads(line))
    except FileNotFoundError:
        return
