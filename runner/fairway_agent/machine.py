"""Cores and GPUs of one machine, shared by tasks."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from fairway_agent import resources
from fairway_agent.resources import (
    FIRST_GPU,
    Devices,
    NeverFits,
    ResourceRequest,
    Share,
    ports_beside,
)
from fairway_boot import files


@dataclass(frozen=True)
class Host:
    """A node of a task: its name, its address, and the task's `share` of it; None for all of it."""

    name: str
    address: str
    share: Share | None = None

    @property
    def is_near(self) -> bool:
        """True if programs start on it without a connection."""
        return self.address == "localhost" or self.name == os.uname().nodename


class Allocator(Protocol):
    """Allocator of nodes and resources for the tasks of one run."""

    lends_nodes: bool
    """True if tasks wait for nodes of their own, and run the job's setup there."""
    pause: float | None
    """Seconds until another try makes sense; None if only the end of another task helps."""
    reason: str | None
    """Reason why the last request got nothing."""

    def take(
        self, nodes: int, ranks: int, wanted: ResourceRequest | None = None
    ) -> list[Host] | None:
        """Allocates nodes to a task, or its `wanted` share of one; returns [] if it needs none of
        its own, and None if it has to wait. Raises NeverFits if no node is that large."""

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        """Frees the nodes of a task that has ended; `lost` are the unreachable addresses."""

    def rest(self) -> None:
        """Notes that no task wants to start."""


_FLOCK = "hhqqi0q"  # struct flock on 64-bit Linux


def allocate_share(file: Path, devices: Devices, wanted: ResourceRequest) -> Share | None:
    """Allocates a share of a node, for which the process locks bytes of the node's file. Returns
    None if others hold too much. Raises NeverFits if the node is too small."""
    require_room(devices, wanted)
    file.parent.mkdir(parents=True, exist_ok=True)
    with files.hold_lock(file.with_name(f"{file.name}.lock")):
        lock = files.open_lock(file)
        share = None
        try:
            share = choose(
                devices,
                wanted,
                partial(_lock, lock),
                lambda byte: _set(lock, fcntl.F_UNLCK, byte, 1),
            )
        finally:
            if share is None:
                os.close(lock)
    return None if share is None else replace(share, lock=lock)


def give_back(share: Share) -> None:
    """Frees a share, even if a leftover program still has the file open."""
    _set(share.lock, fcntl.F_UNLCK, 0, 0)
    os.close(share.lock)


def require_room(devices: Devices, wanted: ResourceRequest) -> None:
    """Raises NeverFits if a node with these devices has less than what is wanted."""
    gpus, cores = len(devices.gpus), len(devices.cores)
    if (wanted.gpus or 0) > gpus or (wanted.cores or 0) > cores:
        raise NeverFits(f"it needs {wanted}, and the node has {ResourceRequest(gpus, cores)}")


def choose(
    devices: Devices,
    wanted: ResourceRequest,
    take: Callable[[int], bool],
    release: Callable[[int], None],
) -> Share | None:
    """Returns a share of a node's free devices, or None if there are too few. `take` claims a
    device by its number, unless it is taken, and `release` gives back claimed GPUs that are not
    chosen. The caller gives back the devices that are still claimed after None."""
    free = [gpu for gpu in devices.gpus if take(FIRST_GPU + gpu.index)]
    # Next to the same cores if possible.
    groups = ([each for each in free if each.near == gpu.near] for gpu in free)
    number = wanted.gpus or 0
    gpus = next((group for group in groups if len(group) >= number), free)[:number]
    for gpu in free:
        if gpu not in gpus:
            release(FIRST_GPU + gpu.index)
    count = wanted.cores_of(len(devices.cores), len(devices.gpus))
    near = {core for gpu in gpus for core in gpu.near}
    by_distance = sorted(devices.cores, key=lambda core: (core not in near, core))
    cores = list(islice(filter(take, by_distance), count))
    if len(gpus) < number or len(cores) < count:
        return None
    numbers, cores = sorted(gpu.index for gpu in gpus), sorted(cores)
    fraction = float(wanted.node_fraction_of(len(devices.cores), len(devices.gpus)))
    # One slot per core, followed by one per GPU that comes without cores.
    most = devices.processors + max((gpu.index + 1 for gpu in devices.gpus), default=0)
    slots = cores or [devices.processors + each for each in numbers]
    return Share(tuple(numbers), tuple(cores), fraction, ports_beside(slots, most))


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
    except PermissionError as error:  # some file systems report a held lock this way
        raise BlockingIOError(error.errno, error.strerror) from None


_PAUSE = 0.5  # seconds between two checks of what other runs use


def own_folder(path: Path) -> Path:
    """Creates the user's own folder in a public one. Raises OSError if another user owns it, or
    everybody may write to it; its group no longer may."""
    path.mkdir(mode=0o700, exist_ok=True)
    # Asked once: another user could replace what is not this one's between two questions.
    found = path.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & stat.S_IWOTH:
        raise PermissionError(1, "it is not a folder of this user's alone", str(path))
    if found.st_mode & stat.S_IWGRP:  # made under the umask that Ubuntu gives to people
        path.chmod(0o700)
    return path


@dataclass
class Machine:
    """Allocator of this machine. Tasks that want a part of it have that part to themselves. The
    others share its cores, one per rank, and at least one task runs however large it is."""

    lends_nodes: bool = False
    pause: float | None = None
    reason: str | None = None
    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    tasks: int = 0
    used: int = 0

    @cached_property
    def _devices(self) -> resources.Devices:
        return resources.look()

    def take(
        self, nodes: int, ranks: int, wanted: ResourceRequest | None = None
    ) -> list[Host] | None:
        self.pause = self.reason = None
        if wanted is None:
            if self.tasks and self.used + ranks > self.cores:
                return None
            self.tasks += 1
            self.used += min(ranks, self.cores)
            return []
        import tempfile  # slower to import than everything else here

        # Records which devices are lent to runs of this user.
        folder = own_folder(Path(tempfile.gettempdir(), f"fairway-devices-{os.getuid()}"))
        share = allocate_share(folder / "machine", self._devices, wanted)
        if share is None:
            self.pause, self.reason = _PAUSE, f"waits for {wanted} of this machine"
            return None
        return [Host("localhost", "localhost", share=share)]

    def give_back(self, hosts: list[Host], ranks: int, lost: Collection[str] = ()) -> None:
        if not hosts:
            self.tasks -= 1
            self.used -= min(ranks, self.cores)
        for host in hosts:
            if host.share is not None:
                give_back(host.share)

    def rest(self) -> None:
        """Does nothing."""
