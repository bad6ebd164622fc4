"""Ports for a job's own processes. Standard library only."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000  # below lie the ports of services, and 6000, which is Batch's own
_EPHEMERAL = 32_768  # Linux's own default, where the machine does not say
_TRIES = 200


def free_port(count: int = 1, own: tuple[int, int] | None = None) -> int:
    """The first of `count` ports in a row on which nobody listens, on any address; of a task's
    `own` range, its first and last port, where they are found there.

    They lie below those that the kernel gives to outgoing connections: between here and the
    job's own `bind` any program's connection could take one of these. Raises OSError where no
    such ports are left.
    """
    if own is not None:
        for port in range(own[0], own[1] + 2 - count):
            if all(map(_is_free, range(port, port + count))):
                return port
    end = _first_ephemeral() - count
    if end <= _LOWEST:
        end = _EPHEMERAL - count  # connections get all of them here: one is as good as another
    chosen = random.SystemRandom()
    for _ in range(_TRIES):
        port = chosen.randrange(_LOWEST, end)
        if all(map(_is_free, range(port, port + count))):
            return port
    raise OSError(f"no {count} ports in a row are free between {_LOWEST} and {end}")


def _first_ephemeral() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_RANGE.read_text().split()[0])
    return _EPHEMERAL


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
