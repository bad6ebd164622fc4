"""What takes its time, as a cancel does that waits for a run's end: in threads of its own, so that
pages are shown meanwhile, however many wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fairway_core.findings import UserError
from fairway_runner.runs.records import removed
from fairway_web.roles import request_context

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST = 100
"""Runs that are acted on at once; further ones wait. Most of the time such a thread sleeps."""
_MOST_READS = 40
_MOST_CHECKS = 4  # these compute, each in a process
_MOST_SUBMISSIONS = 16  # these have a process too, which waits for targets
_FAILED = 5  # as commands end

_limiters: RunVar[dict[str, CapacityLimiter]] = RunVar("limiters")


async def reading(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that reads what there is."""
    return await _called("read", _MOST_READS, function, *arguments)


async def acting(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that acts on runs."""
    return await _called("act", MOST, function, *arguments)


async def checking(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that looks at a job: as often as somebody types."""
    return await _called("check", _MOST_CHECKS, function, *arguments)


async def submitting(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that submits a job."""
    return await _called("submit", _MOST_SUBMISSIONS, function, *arguments)


def file_error(error: OSError) -> UserError:
    """What is said of a file that cannot be read or written; another error is raised again."""
    if error.filename is None:
        raise error
    if (gone := removed(Path(error.filename))) is not None:
        return gone
    message = f"{error.filename}: {error.strerror}"
    return UserError.of("file-error", message, f"ls -ld {error.filename}", exit_code=_FAILED)


async def _called(kind: str, most: int, function: Callable[..., T], *arguments: object) -> T:
    """In a thread; each of several people has half of these at most, and then waits alone."""
    person = request_context().person
    own = _limiter(f"{kind} {person.id}", most // 2 if person.is_named else most)
    try:
        async with own:
            return await to_thread.run_sync(function, *arguments, limiter=_limiter(kind, most))
    except OSError as error:
        raise file_error(error) from None


def _limiter(name: str, most: int) -> CapacityLimiter:
    try:
        known = _limiters.get()
    except LookupError:
        _limiters.set(known := {})
    return known.setdefault(name, CapacityLimiter(most))
