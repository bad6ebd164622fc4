"""Public ranges among those that users connect from."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Services never see these addresses: users in these ranges connect to a private endpoint.
_PRIVATE = tuple(
    IPv4Network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
)


def is_private(network: IPv4Network) -> bool:
    """Returns True if no address of a range is ever visible on the internet."""
    return any(network.subnet_of(private) for private in _PRIVATE)


def seen_outside(ranges: Sequence[IPv4Network | str]) -> list[IPv4Network]:
    """Returns the ranges that are visible on the internet. Raises ValueError for invalid text.

    >>> seen_outside([IPv4Network("203.0.113.7/32"), IPv4Network("10.0.0.0/8")])
    [IPv4Network('203.0.113.7/32')]
    """
    networks = [IPv4Network(each) for each in ranges]
    return [
        network
        for network in networks
        if not any(network.overlaps(private) for private in _PRIVATE)
    ]
