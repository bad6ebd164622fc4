"""Detects idle GPUs of a task from the samples of its nodes.

All times are those of the samples themselves: once no more samples come, nothing is known, and the
task is not considered idle.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.figures.sampler import SLOWER
from fairway_agent.limits import written
from fairway_agent.records import Fields, Unfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_agent.spec import IdleGpu

_MOST = 1 << 20  # bytes of samples that are read at once; one of sixteen GPUs has 2,000
_SOONEST = 1.0  # seconds between two looks
_GAPS = 3  # of the longest interval, after which nobody knows what was between two samples


@dataclass
class _Lines:
    """The lines of a file that come from now on: those before are another attempt's."""

    file: Path
    at: int = 0

    def __post_init__(self) -> None:
        with suppress(OSError):
            self.at = self.file.stat().st_size

    def new(self) -> Iterator[bytes]:
        with suppress(OSError), self.file.open("rb") as file:
            file.seek(self.at)
            while data := file.read(_MOST):
                whole = data.rfind(b"\n") + 1
                if not whole and len(data) < _MOST:
                    return  # it is being written
                # A line that is longer than any sample is none.
                self.at += whole or len(data)
                file.seek(self.at)
                yield from data[:whole].splitlines()


@dataclass
class _Node:
    """The time of a node's last sample, and since when each has shown idle GPUs."""

    last: float = 0.0
    since: float | None = None

    def take(self, sample: Fields, limit: IdleGpu, gpus: Sequence[int] | None, gap: float) -> None:
        time, uses = sample.span("time"), _uses(sample, gpus)
        if not uses or any(round(use * 100, 3) >= limit.below for use in uses):
            self.since = None
        elif self.since is None or not self.last <= time <= self.last + gap:
            self.since = time
        self.last = time


def _uses(sample: Fields, gpus: Sequence[int] | None) -> list[float]:
    """Load of each GPU, as a share of 1; empty unless it is known of every one."""
    found = {}
    for each in sample.each("gpus"):
        gpu = Fields(each, "a GPU")
        found[gpu.count("index")] = gpu.or_none("use", gpu.span)
    uses = list(found.values()) if gpus is None else [found.get(gpu) for gpu in gpus]
    known = [use for use in uses if use is not None]
    return known if len(known) == len(uses) else []


@dataclass
class IdleWatch:
    """Looks whether the GPUs of an attempt are idle for as long as its job allows.

    `folder` has the samples of the `nodes`, taken every `seconds`; `gpus` are the numbers of those
    that the task has of its node, None where it has all. `due` is when to look next, on the
    monotonic clock, and `is_idle` what was seen last. Where the nodes share no folder, `printed` is
    the file with the samples of all, each of which names its node; of the `nodes` only the number
    is known then.
    """

    limit: IdleGpu
    folder: Path
    nodes: Sequence[str]
    gpus: Sequence[int] | None
    seconds: float
    due: float
    printed: Path | None = None
    is_idle: bool = False
    _lines: dict[str, _Lines] = field(default_factory=dict)
    _nodes: dict[str, _Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.printed is not None:
            self._lines = {"": _Lines(self.printed)}
        else:
            self._lines = {name: _Lines(self.folder / f"{name}.jsonl") for name in self.nodes}
        self.due += self.limit.seconds

    @property
    def reason(self) -> str:
        return f"its GPUs were below {self.limit.below:g} % for {written(self.limit.seconds)}"

    def look(self, now: float) -> bool:
        """Returns True if the GPUs are idle; `now` is the time on the monotonic clock."""
        for name, lines in self._lines.items():
            for line in lines.new():
                self._take(name, line)
        nodes, lasted = self._nodes.values(), None  # for how long all are idle at the same time
        since = [node.since for node in nodes if node.since is not None]
        wanted = len(self._lines if self.printed is None else self.nodes)
        if since and len(since) >= max(wanted, len(nodes)):
            lasted = min(node.last for node in nodes) - max(since)
        self.is_idle = lasted is not None and lasted >= self.limit.seconds
        left = 0.0 if self.is_idle else self.limit.seconds - max(0.0, lasted or 0.0)
        self.due = now + max(left, self.seconds, _SOONEST)
        return self.is_idle

    def _take(self, name: str, line: bytes) -> None:
        with suppress(ValueError, RecursionError, Unfit):  # the disk was full
            sample = Fields(json.loads(line), "a sample")
            node = self._nodes.setdefault(name or sample.text("node"), _Node())
            node.take(sample, self.limit, self.gpus, _GAPS * SLOWER * self.seconds)
