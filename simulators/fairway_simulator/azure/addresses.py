"""The addresses that the stand-in gives out."""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where the subnet is not known; documentation says which ranges nobody routes (RFC 5737).
_DOCUMENTATION = IPv4Network("203.0.113.0/24")
_PRIVATE = IPv4Network("10.255.0.0/16")
# Azure keeps the first four addresses of a subnet and the last one.
_KEPT_FIRST, _KEPT = 4, 5


def documentation_address(key: str) -> str:
    """A public address that stands for one; always the same for the key."""
    return _pick(_DOCUMENTATION, key)


def address_in(subnet: Mapping[str, Any] | None, key: str) -> str:
    """An address of the subnet that a machine could get; always the same for the key.

    A private one of no subnet's where that is not known.
    """
    properties = (subnet or {}).get("properties") or {}
    prefixes = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    return _pick(IPv4Network(prefixes[0]) if prefixes[0] else _PRIVATE, key)


def _pick(network: IPv4Network, key: str) -> str:
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])
    return str(network[_KEPT_FIRST + number % max(1, network.num_addresses - _KEPT)])
