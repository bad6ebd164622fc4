"""Which GPUs and cores of a node are lent: a file each of whose bytes stands for one of them.

Whoever has some holds locks on their bytes, of an open file description of its own (F_OFD_SETLK of
fcntl(2)), which the kernel drops with the last process that has it open: nothing stays taken when a
task and its supervisor are killed. Nothing is written. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.share import FIRST_GPU, NeverFits, Share, Wanted, ports_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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
                share = _chosen(lock, devices, wanted)
            finally:
                if share is None:
                    os.close(lock)
        return share


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


def _chosen(lock: int, devices: Devices, wanted: Wanted) -> Share | None:
    free = [gpu for gpu in devices.gpus if _lock(lock, FIRST_GPU + gpu.index)]
    gpus = _together(free, wanted.gpus or 0)
    for gpu in free:
        if gpu not in gpus:
            _set(lock, fcntl.F_UNLCK, FIRST_GPU + gpu.index, 1)
    count = wanted.cores_of(len(devices.cores), len(devices.gpus))
    cores = _locked(lock, _by_distance(devices.cores, gpus), count)
    if len(gpus) < (wanted.gpus or 0) or len(cores) < count:
        return None
    numbers, cores = sorted(gpu.index for gpu in gpus), sorted(cores)
    part = max(len(gpus) / max(1, len(devices.gpus)), len(cores) / len(devices.cores))
    # A place for each core, and behind them one for each GPU that comes with no core.
    most = devices.processors + max((gpu.index + 1 for gpu in devices.gpus), default=0)
    slots = cores or [devices.processors + number for number in numbers]
    return Share(tuple(numbers), tuple(cores), part, ports_beside(slots, most), lock)


def _together(free: Sequence[Gpu], count: int) -> Sequence[Gpu]:
    """So many of the GPUs that are free: beside the same cores where there are as many."""
    for gpu in free:
        beside = [each for each in free if each.near == gpu.near]
        if len(beside) >= count:
            return beside[:count]
    return free[:count]


def _by_distance(cores: Sequence[int], gpus: Sequence[Gpu]) -> list[int]:
    """The cores, those beside the GPUs first."""
    near = {core for gpu in gpus for core in gpu.near}
    return sorted(cores, key=lambda core: (core not in near, core))


def _locked(lock: int, cores: Iterable[int], count: int) -> list[int]:
    """The first of the cores that nobody has, so many at most."""
    found: list[int] = []
    for core in cores:
        if len(found) < count and _lock(lock, core):
            found.append(core)
    return found


def _lock(descriptor: int, byte: int) -> bool:
    try:
        _set(descriptor, fcntl.F_WRLCK, byte, 1)
    except BlockingIOError:
        return False
    return True


def _set(descriptor: int, kind: int, first: int, count: int) -> None:
    request = struct.pack(_FLOCK, kind, os.SEEK_SET, first, count, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except PermissionError as error:  # by which some file systems say that another has it
        raise BlockingIOError(error.errno, error.strerror) from None
