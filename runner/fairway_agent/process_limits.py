"""Limits on processor time and memory for code from users: patterns and templates."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sys import UnraisableHookArgs

_PAGE = resource.getpagesize()
CPU_LIMIT = 10.0  # seconds of this process's own time, independent of the machine's load


class OverLimit(Exception):
    """The code has used more processor time than it may."""


_is_prepared = False
"""True once the signal has a handler; only used by the main thread."""


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Raises OverLimit in the block after CPU_LIMIT of processor time, and after each further one
    in case something swallows it. Only the main thread gets signals, and has a limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with prepared():
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT, CPU_LIMIT)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def prepared() -> Iterator[None]:
    """Makes limits cheap within the block: a sweep renders templates for each of its tasks."""
    global _is_prepared
    if _is_prepared or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        raise OverLimit

    before, report = signal.signal(signal.SIGVTALRM, end), sys.unraisablehook

    def report_others(error: UnraisableHookArgs) -> None:
        # Python prints exceptions in finalizers and continues: the next signal ends the work.
        if not isinstance(error.exc_value, OverLimit):
            report(error)

    sys.unraisablehook, _is_prepared = report_others, True
    try:
        yield
    finally:
        _is_prepared = False
        sys.unraisablehook = report
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)


def used_memory() -> int | None:
    """Returns the size of this process's data in bytes; None if the system does not say (macOS)."""
    sizes = _sizes(os.getpid())
    return None if sizes is None else int(os.pread(sizes, 200, 0).split()[5]) * _PAGE


@cache
def _sizes(_process: int) -> int | None:
    # Kept open: a sweep renders templates for each of its tasks.
    with suppress(OSError):
        return os.open("/proc/self/statm", os.O_RDONLY)
    return None


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Raises MemoryError in the block if the process, with all threads, takes `size` bytes more
    than now. Outside the main thread, and where the size is unknown, there is no limit."""
    now = used_memory() if threading.current_thread() is threading.main_thread() else None
    if now is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min(each for each in (now + size, *before) if each != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
