"""What takes its time, as a cancel does that waits for a run's end: in threads of its own, so that
pages are shown meanwhile, however many wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST = 8
"""Runs that are acted on at once; further ones wait."""

_limiter: RunVar[CapacityLimiter] = RunVar("acting")


async def acting(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that acts on runs."""
    try:
        limiter = _limiter.get()
    except LookupError:
        _limiter.set(limiter := CapacityLimiter(MOST))
    return await to_thread.run_sync(function, *arguments, limiter=limiter)
