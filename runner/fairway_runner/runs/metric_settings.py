"""What a job says of its metrics beside their patterns: which value is better, and its steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.runs.records import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# Parts of names that say by themselves which value is better.
_LOWER = frozenset({"loss", "error", "err", "perplexity", "ppl", "wer", "cer", "nll"})
_LOWER |= {"mse", "rmse", "mae", "latency", "seconds", "time"}
_HIGHER = frozenset({"accuracy", "acc", "f1", "bleu", "auc", "precision", "recall"})
_HIGHER |= {"reward", "iou", "throughput"}


@dataclass(frozen=True)
class MetricSetting:
    """One metric: `lower` is whether its lowest value is the best, None where nothing says so;
    `step` the pattern of the step that a value belongs to."""

    lower: bool | None = None
    step: re.Pattern[str] | None = None

    @property
    def best(self) -> Callable[..., float]:
        """`min` or `max`; the highest where nothing is known."""
        return min if self.lower else max


def metric_settings(folder: Path, metrics: Iterable[str]) -> dict[str, MetricSetting]:
    """The setting of each of these metrics, by the job in the run's folder."""
    try:
        given = read_json(folder / "job.json").get("metrics")
    except (UserError, OSError):
        given = {}
    known = given if isinstance(given, dict) else {}
    return {name: setting_of(name, known.get(name)) for name in metrics}


def setting_of(name: str, given: Any) -> MetricSetting:
    """The setting of one metric, by what the record of its job has."""
    said = given if isinstance(given, dict) else {}
    lower = {"lower": True, "higher": False}.get(str(said.get("better")), _lower_by_name(name))
    return MetricSetting(lower, _pattern(said.get("step")))


def _pattern(text: Any) -> re.Pattern[str] | None:
    """The pattern, as far as the record of the job is whole."""
    try:
        found = re.compile(text) if isinstance(text, str) else None
    except re.error:
        return None
    return found if found is not None and found.groups == 1 else None


def _lower_by_name(name: str) -> bool | None:
    """Whether the lowest is the best of a metric with that name.

    >>> [_lower_by_name(each) for each in ("val_loss", "images_per_second", "norm")]
    [True, False, None]
    """
    parts = name.lower().split("_")
    if "per" in parts or _HIGHER & set(parts):
        return False
    return True if _LOWER & set(parts) else None
