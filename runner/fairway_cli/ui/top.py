"""How nodes are used, as plain data and as columns."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_runner.quantities import duration, size
from fairway_runner.runs.figures import mean
from fairway_runner.runs.view import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_runner.runs.figures import Sample

_TITLES = (
    *("NODE", "GPUS", "GPU MEMORY", "POWER", "CPU", "MEMORY", "I/O WAIT"),
    *("DISK R/W", "NETWORK IN/OUT", "INFINIBAND IN/OUT", "AGE"),
)


def sample_facts(samples: Mapping[str, Sample]) -> list[dict[str, Any]]:
    """The last sample of each node; null where there is nothing to say."""
    return [
        {"node": node, **asdict(sample), "time": iso(sample.time)}
        for node, sample in samples.items()
    ]


def use_table(samples: Mapping[str, Sample], now: float | None = None) -> str:
    """A line a node: its last sample, and how old that is."""
    moment = time.time() if now is None else now
    return columns(_TITLES, [_row(node, sample, moment) for node, sample in samples.items()])


def gpu_table(samples: Mapping[str, Sample]) -> str:
    """A line a GPU of every node; "" where there is none."""
    rows = [
        (
            node,
            str(gpu.index),
            _share(gpu.use),
            _part(gpu.memory, gpu.memory_total),
            _power(gpu.power),
            _rates(gpu.nvlink_received, gpu.nvlink_sent),
        )
        for node, sample in samples.items()
        for gpu in sample.gpus
    ]
    if not rows:
        return ""
    return columns(("NODE", "GPU", "USE", "MEMORY", "POWER", "NVLINK IN/OUT"), rows)


def _row(node: str, sample: Sample, now: float) -> tuple[str, ...]:
    gpus = sample.gpus
    return (
        node,
        _share(sample.gpu_use),
        _part(_sum(gpu.memory for gpu in gpus), _sum(gpu.memory_total for gpu in gpus)),
        _power(_sum(gpu.power for gpu in gpus)),
        _share(sample.cpu),
        _part(sample.memory, sample.memory_total),
        _share(sample.io_wait),
        _rates(sample.disk_read, sample.disk_written),
        _rates(sample.received, sample.sent),
        _rates(sample.fabric_received, sample.fabric_sent),
        duration(max(0.0, now - sample.time)),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _part(value: float | None, total: float | None) -> str:
    if value is None:
        return ""
    return size(int(value)) + (f" of {size(int(total))}" if total else "")


def _power(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} W"


def _rates(first: float | None, second: float | None) -> str:
    if mean((first, second)) is None:
        return ""
    return " / ".join("?" if v is None else f"{size(int(v))}/s" for v in (first, second))
