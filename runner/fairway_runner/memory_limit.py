"""A limit on the memory that something of the user's may take: a template, a whole job."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = resource.getpagesize()


def taken() -> int | None:
    """The bytes that this process has for its data; None where the system does not say (macOS)."""
    sizes = _sizes(os.getpid())
    return None if sizes is None else int(os.pread(sizes, 200, 0).split()[5]) * _PAGE


@cache
def _sizes(_process: int) -> int | None:
    # It stays open: a sweep renders templates for each of its tasks.
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return None


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Raises MemoryError from within where the process takes `size` bytes more than now, all its
    threads together. On systems that do not say what it has, and in another thread than the main
    one, there is no limit."""
    now = taken() if threading.current_thread() is threading.main_thread() else None
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
