"""The ranges that users connect from: the public ones among them, and none inside another."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Services never see these addresses: users in these ranges connect to a private endpoint.
_PRIVATE = (
    *(IPv4Network("10.0.0.0/8"), IPv4Network("100.64.0.0/10"), IPv4Network("127.0.0.0/8")),
    *(IPv4Network("169.254.0.0/16"), IPv4Network("172.16.0.0/12"), IPv4Network("192.168.0.0/16")),
)


def is_private(network: IPv4Network) -> bool:
    """Returns True if no address of a range is ever visible on the internet."""
    return any(map(network.subnet_of, _PRIVATE))


def internet_ranges(ranges: Sequence[IPv4Network | str]) -> list[IPv4Network]:
    """Returns the ranges that are visible on the internet, none inside another. Raises ValueError
    for invalid text.

    >>> internet_ranges([IPv4Network("203.0.113.7/32"), IPv4Network("10.0.0.0/8")])
    [IPv4Network('203.0.113.7/32')]
    """
    networks = [IPv4Network(each) for each in ranges]
    return drop_nested([each for each in networks if not any(map(each.overlaps, _PRIVATE))])


def drop_nested(ranges: Sequence[IPv4Network]) -> list[IPv4Network]:
    """Returns the ranges without those inside another: Azure takes no rule that overlaps itself.

    >>> drop_nested([*map(IPv4Network, ("10.0.1.0/24", "10.0.0.0/16", "10.1.0.0/16"))])
    [IPv4Network('10.0.0.0/16'), IPv4Network('10.1.0.0/16')]
    """
    once = list(dict.fromkeys(ranges))
    return [each for each in once if sum(map(each.subnet_of, once)) == 1]
