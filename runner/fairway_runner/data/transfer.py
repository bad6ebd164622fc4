"""What uploads and downloads share: their sizes, their threads, what they report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

FILES_AT_ONCE = 16
BLOCKS_AT_ONCE = 16  # of one file
BLOCK = 4 * 2**20  # bytes; a large file travels in pieces of this size
_MOST_BLOCKS = 40_000  # of one blob; the service takes 50,000

Report = Callable[[int], None]
"""Is told of each number of bytes that have arrived."""


@dataclass(frozen=True)
class Transferred:
    """Which files were copied, their size in bytes, and how many were there already."""

    files: tuple[str, ...]
    size: int
    unchanged: int


def block_size(size: int) -> int:
    """The size of the pieces in which a file of `size` bytes travels."""
    return max(BLOCK, -(-size // _MOST_BLOCKS))


def digest_of(file: Path) -> bytes:
    """The MD5 of a file, which is what the service keeps beside a blob."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).digest()


def at_once(operation: Callable[[T], None], items: Iterable[T]) -> None:
    """The operation on every item, many at the same time; the first failure ends it."""
    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        started = [pool.submit(operation, item) for item in items]
        done, rest = wait(started, return_when=FIRST_EXCEPTION)
        for each in rest:
            each.cancel()
        for each in done:
            if not each.cancelled():
                each.result()


@contextmanager
def blocks_at_once() -> Iterator[Callable[[Callable[[], None]], None]]:
    """A function that starts an operation on a block of one file; on leaving all have ended.

    It waits while too many are under way: their bytes are in memory.
    """
    room = BoundedSemaphore(BLOCKS_AT_ONCE)
    with ThreadPoolExecutor(BLOCKS_AT_ONCE) as pool:
        started = []

        def start(operation: Callable[[], None]) -> None:
            room.acquire()
            future = pool.submit(operation)
            future.add_done_callback(lambda _: room.release())
            started.append(future)
            if future.done():
                future.result()

        yield start
        for each in started:
            each.result()
