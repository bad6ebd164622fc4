"""What can be wrong with the main host of any cluster, told from one look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SKEW = 30.0  # seconds between two clocks, beyond which times in logs mislead
_LEAST_FREE = 1 << 30  # bytes


def of_shared_folder(fault: str, free: int, shared: str, host: str) -> Iterator[Finding]:
    """What is wrong with the folder that all nodes see, which has `free` bytes."""
    if fault:
        message = f"the shared folder {shared} cannot be used: {fault}"
        hint = f"check its mount on {host}: findmnt -T {shared}"
        yield Finding("unwritable-folder", message, hint)
    if free < _LEAST_FREE:
        message = f"the shared folder {shared} has {free >> 20} MiB left"
        yield Finding("full-disk", message, "remove old runs: fairway clean")


def of_clock(time: float, called: str, began: float, ended: float) -> Iterator[Finding]:
    """Whether the host's time lies between two moments of this machine's clock, or nearly."""
    off = max(began - time, time - ended, 0.0)
    if off > _MOST_SKEW:
        message = f"the {called}'s clock differs by {off:.0f} s from this machine's"
        hint = "compare both with: timedatectl"
        yield Finding("skewed-clock", message, hint, severity=Severity.WARNING)
