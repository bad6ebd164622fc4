"""One at a time in a folder: plans that run beside each other share a cache, or even cdktf.out."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def alone_in(folder: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds the folder, which it makes; calls `waiting` where somebody else holds it.

    The lock is on the folder itself and ends with this process, whatever becomes of it. A file
    system without locks has none to give: then nothing is held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, waiting)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, waiting: Callable[[], None] | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is not None:
            waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return
