"""The metrics of a run's tasks, read in any thread. What a long log has said so far is kept beside
it, so that nobody reads that a second time; how one is read is in `fairway_agent.metric_logs`."""

from __future__ import annotations

import json
import math
import re
import threading
import zlib
from contextlib import nullcontext, suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from fairway_agent import cpu_limit
from fairway_agent.metric_logs import MetricLog, tail_values, too_slow, values_of
from fairway_boot.files import write_json
from fairway_core.findings import UserError
from fairway_runner import worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from fairway_agent.metric_logs import Found, Patterns

_KEPT = ".metrics.json"
_WORTH = 1 << 20  # this many bytes of a log take longer to read than to keep what they say
_BEFORE = 1 << 16  # bytes by which a log is known again
_ALONE = threading.Lock()
_SLOW: dict[int, None] = {}
"""Searches that were stopped: who looks at the page of such a run again does not wait again."""
_MOST_SLOW = 1000


def compile_patterns(metrics: Mapping[str, str]) -> Patterns:
    """A job's `metrics:`, ready to be looked for."""
    return {name: re.compile(pattern) for name, pattern in metrics.items()}


def metric_log(
    path: Path, patterns: Patterns, offset: int = 0, until: int | None = None
) -> MetricLog:
    """A task's log, whose values can be read in any thread; reading it raises UserError where a
    pattern takes too long."""
    return MetricLog(path, patterns, offset, until, search)


def search(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    """The values of a metric in some texts; UserError where its pattern takes too long."""
    known = hash((pattern.pattern, *texts))
    # In another thread nothing could stop it, nor would any thread go on meanwhile.
    is_apart = threading.current_thread() is not threading.main_thread()
    try:
        with _ALONE if is_apart else nullcontext():
            if known in _SLOW:
                raise cpu_limit.OverLimit
            return worker.call(_limited, pattern, texts) if is_apart else _limited(pattern, texts)
    except cpu_limit.OverLimit:
        if len(_SLOW) >= _MOST_SLOW:
            _SLOW.pop(next(iter(_SLOW)), None)
        _SLOW[known] = None
        raise UserError.of("slow-metric", *too_slow(name, pattern)) from None


def _limited(pattern: re.Pattern[str], texts: Sequence[str]) -> Found:
    with cpu_limit.cpu_limit():
        return values_of(pattern, texts)


def last_values(path: Path, patterns: Patterns) -> dict[str, float]:
    """The last value of each metric that a log has, looked for at its end first."""
    found = tail_values(path, patterns, search)
    if found is not None:
        return found
    return {name: each.last for name, each in all_values(path, patterns).items()}


@dataclass
class Values:
    """What a log has said of a metric."""

    last: float
    lowest: float
    highest: float


def all_values(path: Path, patterns: Patterns) -> dict[str, Values]:
    """The last, lowest and highest value of each metric that a log has; of a long one only what
    has come since it was read last is read."""
    found, offset = _read_kept(path, patterns)
    log = metric_log(path, patterns, offset)
    _take(log.read(ended=False), found)
    if log.offset - offset >= _WORTH:
        _keep(path, patterns, found, log.offset)
    _take(log.read(), found)  # the last line may go on
    return {name: found[name] for name in patterns if name in found}


def _take(values: Iterable[tuple[str, float]], found: dict[str, Values]) -> None:
    for name, value in values:
        known = found.setdefault(name, Values(value, value, value))
        known.last = value
        known.lowest = min(value, known.lowest)
        known.highest = max(value, known.highest)


def _keep(path: Path, patterns: Patterns, found: Mapping[str, Values], offset: int) -> None:
    facts = {
        "patterns": _texts(patterns),
        "offset": offset,
        "before": _before(path, offset),
        "values": {name: astuple(each) for name, each in found.items()},
    }
    with suppress(OSError):  # who cannot keep it reads it again
        write_json(path.with_name(_KEPT), facts)


def _read_kept(path: Path, patterns: Patterns) -> tuple[dict[str, Values], int]:
    """What was kept of these metrics and up to which byte; nothing where it is not of this log."""
    try:
        facts = json.loads(path.with_name(_KEPT).read_bytes())
        offset = int(facts["offset"])
        values = {name: Values(*map(float, each)) for name, each in facts["values"].items()}
        known, before = facts["patterns"], facts["before"]
        is_fit = known.items() >= _texts(patterns).items() and before == _before(path, offset)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {}, 0
    if not is_fit or not all(math.isfinite(n) for each in values.values() for n in astuple(each)):
        return {}, 0
    return values, offset


def _texts(patterns: Patterns) -> dict[str, str]:
    return {name: pattern.pattern for name, pattern in patterns.items()}


def _before(path: Path, offset: int) -> list[int]:
    """What tells whether a log is still the one that was read up to there."""
    with path.open("rb") as file:
        file.seek(max(0, offset - _BEFORE))
        text = file.read(min(offset, _BEFORE))
    return [len(text), zlib.crc32(text)]
