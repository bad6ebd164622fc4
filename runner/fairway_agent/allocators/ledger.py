"""Which GPUs and cores of a node are lent: a file each of whose bytes stands for one of them.

Who has some holds locks on their bytes, of an open file description of its own (F_OFD_SETLK of
fcntl(2)), which the kernel drops with the last process that has it open: nothing stays taken when a
task and its supervisor are killed. Nothing is written. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.share import FIRST_GPU, NeverFits, Share, Wanted, ports_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fairway_agent.devices import Devices, Gpu

_FLOCK = "hhqqi0q"  # struct flock of a 64-bit Linux


@dataclass(frozen=True)
class Ledger:
    """The file of one node. Looked at by one process at a time, which holds the lock beside it."""

    file: Path

    def take(self, devices: Devices, wanted: Wanted) -> Share | None:
        """A share of the node for a task; None where others have too much of it. NeverFits where
        the node is too small."""
        require_room(devices, wanted)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with record.alone(self.file.with_name(f"{self.file.name}.lock")):
            lock = record.open_lock(self.file)
            share = None
            try:
                share = choose(devices, wanted, partial(_lock, lock), partial(_unlock, lock))
            finally:
                if share is None:
                    os.close(lock)
        return None if share is None else replace(share, lock=lock)


def give_back(share: Share) -> None:
    """Others may have it, also where a program that the task has left behind still has the file
    open."""
    _set(share.lock, fcntl.F_UNLCK, 0, 0)
    os.close(share.lock)


def require_room(devices: Devices, wanted: Wanted) -> None:
    """NeverFits where a node with these has less than what is wanted."""
    gpus, cores = len(devices.gpus), len(devices.cores)
    if (wanted.gpus or 0) > gpus or (wanted.cores or 0) > cores:
        raise NeverFits(f"it needs {wanted}, and the node has {Wanted(gpus, cores)}")


def choose(
    devices: Devices,
    wanted: Wanted,
    take: Callable[[int], bool],
    release: Callable[[int], None],
) -> Share | None:
    """A share of what is free of a node's devices; None where that is too little.

    `take` makes a device one's own by its number, if nobody has it, and `release` undoes that for
    some of those that are not chosen.
    """
    free = [gpu for gpu in devices.gpus if take(FIRST_GPU + gpu.index)]
    gpus = _together(free, wanted.gpus or 0)
    for gpu in free:
        if gpu not in gpus:
            release(FIRST_GPU + gpu.index)
    count = wanted.cores_of(len(devices.cores), len(devices.gpus))
    cores = list(islice(filter(take, _by_distance(devices.cores, gpus)), count))
    if len(gpus) < (wanted.gpus or 0) or len(cores) < count:
        return None
    numbers, cores = sorted(gpu.index for gpu in gpus), sorted(cores)
    part = max(len(gpus) / max(1, len(devices.gpus)), len(cores) / len(devices.cores))
    # A place for each core, and behind them one for each GPU that comes with no core.
    most = devices.processors + max((gpu.index + 1 for gpu in devices.gpus), default=0)
    slots = cores or [devices.processors + number for number in numbers]
    return Share(tuple(numbers), tuple(cores), part, ports_beside(slots, most))


def _together(free: Sequence[Gpu], count: int) -> Sequence[Gpu]:
    """As many of the GPUs that are free: beside the same cores where there are as many."""
    for gpu in free:
        beside = [each for each in free if each.near == gpu.near]
        if len(beside) >= count:
            return beside[:count]
    return free[:count]


def _by_distance(cores: Sequence[int], gpus: Sequence[Gpu]) -> list[int]:
    """The cores, those beside the GPUs first."""
    near = {core for gpu in gpus for core in gpu.near}
    return sorted(cores, key=lambda core: (core not in near, core))


def _lock(descriptor: int, byte: int) -> bool:
    try:
        _set(descriptor, fcntl.F_WRLCK, byte, 1)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int, byte: int) -> None:
    _set(descriptor, fcntl.F_UNLCK, byte, 1)


def _set(descriptor: int, kind: int, first: int, count: int) -> None:
    request = struct.pack(_FLOCK, kind, os.SEEK_SET, first, count, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except PermissionError as error:  # by which some file systems say that another has it
        raise BlockingIOError(error.errno, error.strerror) from None
