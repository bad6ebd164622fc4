"""Loopback ports that nobody listens on."""

from __future__ import annotations

import secrets
import socket

# Below the range from which the kernel takes ports for outgoing connections.
_FIRST, _LAST = 20_000, 32_000


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = _FIRST + secrets.randbelow(_LAST - _FIRST - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
