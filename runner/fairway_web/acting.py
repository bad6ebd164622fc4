"""What takes its time, as a cancel does that waits for a run's end: in threads of its own, so that
pages are shown meanwhile, however many wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST = 100
"""Runs that are acted on at once; further ones wait. Most of the time such a thread sleeps."""
_FAILED = 5  # as commands end
_MOST_CHECKS = 2  # these compute

_acting: RunVar[CapacityLimiter] = RunVar("acting")
_checking: RunVar[CapacityLimiter] = RunVar("checking")


async def acting(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that acts on runs."""
    return await _called(_limiter(_acting, MOST), function, *arguments)


async def checking(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that looks at a job: as often as somebody types."""
    return await _called(_limiter(_checking, _MOST_CHECKS), function, *arguments)


def file_error(error: OSError) -> UserError:
    """What is said of a file that cannot be read or written; another error is raised again."""
    if error.filename is None:
        raise error
    message = f"{error.filename}: {error.strerror}"
    return UserError.of("file-error", message, f"ls -ld {error.filename}", exit_code=_FAILED)


async def _called(limiter: CapacityLimiter, function: Callable[..., T], *arguments: object) -> T:
    try:
        return await to_thread.run_sync(function, *arguments, limiter=limiter)
    except OSError as error:
        raise file_error(error) from None


def _limiter(known: RunVar[CapacityLimiter], most: int) -> CapacityLimiter:
    try:
        return known.get()
    except LookupError:
        known.set(limiter := CapacityLimiter(most))
        return limiter
