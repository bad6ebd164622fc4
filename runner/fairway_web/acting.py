"""What takes its time, as a cancel does that waits for a run's end: in threads of its own, so that
pages are shown meanwhile, however many wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST = 100
"""Runs that are acted on at once; further ones wait. Most of the time such a thread sleeps."""
_MOST_CHECKS = 2  # these compute

_acting: RunVar[CapacityLimiter] = RunVar("acting")
_checking: RunVar[CapacityLimiter] = RunVar("checking")


async def acting(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that acts on runs."""
    limiter = _limiter(_acting, MOST)
    return await to_thread.run_sync(function, *arguments, limiter=limiter)


async def checking(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that looks at a job: as often as somebody types."""
    limiter = _limiter(_checking, _MOST_CHECKS)
    return await to_thread.run_sync(function, *arguments, limiter=limiter)


def _limiter(known: RunVar[CapacityLimiter], most: int) -> CapacityLimiter:
    try:
        return known.get()
    except LookupError:
        known.set(limiter := CapacityLimiter(most))
        return limiter
