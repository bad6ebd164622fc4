"""Subnets of an environment's address space, and its proxy."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from fairway_agent.quick import dataclass
from fairway_core.catalog import reserved_ranges
from fairway_core.documents import Check, FieldError, Model, matching
from fairway_core.environment.values import WIDEST_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.yaml_text import DataPath


@dataclass(frozen=True, kw_only=True)
class SubnetRole:
    """A purpose of a subnet. With `everywhere` every network has one; others exist only if
    something needs them, such as a `filesystem` whose subnet holds nothing else. With
    `uses_services` its machines use Blob storage and secrets. What another Azure service creates in
    a `delegated` one needs no internet access."""

    block: int | None = None
    everywhere: bool = False
    filesystem: bool = False
    uses_services: bool = False
    delegated: str = ""


# The first half is for compute nodes. The second half is divided into sixteen equal blocks, and a
# role keeps its block for ever: a new role takes a free one, so that no subnet moves.
SUBNETS = {
    "compute": SubnetRole(everywhere=True, uses_services=True),
    "storage": SubnetRole(block=0, everywhere=True),
    "management": SubnetRole(block=1, everywhere=True),
    "endpoints": SubnetRole(block=2),
    "bastion": SubnetRole(block=3),
    "netapp": SubnetRole(block=4, filesystem=True, delegated="Microsoft.Netapp/volumes"),
    "lustre": SubnetRole(block=5, filesystem=True, uses_services=True),
    "kubernetes": SubnetRole(block=6, uses_services=True),
}
_BLOCK_BITS = 5

EVERY_NETWORK = tuple(role for role, each in SUBNETS.items() if each.everywhere)

# The smallest block must still hold the largest small subnet that Azure requires, a /26.
LONGEST_PREFIX = 26 - _BLOCK_BITS


_RESERVED = {
    "infiniband": "which InfiniBand uses inside each VM",
    "virtual_network": "which Azure takes for no virtual network",
    "kubernetes": "which AKS does not take",
}


def require_free(
    network: IPv4Network,
    *purposes: str,
    path: DataPath = (),
    hint: str = "use another range, for example 10.40.0.0/16",
) -> None:
    """Raises FieldError if the range overlaps one that is reserved for one of these purposes, by
    default those of any network."""
    for purpose in purposes or ("infiniband", "virtual_network"):
        for reserved in reserved_ranges(purpose):
            if network.overlaps(reserved):
                message = f"`{network}` overlaps {reserved}, {_RESERVED[purpose]}"
                raise FieldError(message, hint, path)


def check_space(space: IPv4Network) -> None:
    """Raises FieldError if no network may have the range: reserved, of a length that Azure does not
    allow, or without room for all subnets."""
    require_free(space)
    if not WIDEST_RANGE <= space.prefixlen <= LONGEST_PREFIX:
        raise FieldError(
            f"`{space}` cannot be cut into subnets",
            f"use a length of /{WIDEST_RANGE} to /{LONGEST_PREFIX}, for example /16",
        )


def require_private(
    space: IPv4Network,
    allowed: Iterable[IPv4Network],
    *,
    path: DataPath = ("address_space",),
    hint: str = "use a private one, for example 10.40.0.0/16",
) -> None:
    """Raises FieldError for a range that is public, unless people are allowed from it."""
    if space.is_global and not any(map(space.subnet_of, allowed)):
        message = f"`{space}` is a public range, and `allowed` does not name it"
        raise FieldError(message, f"{hint}; if it is yours, name it there too", path)


def require_outside(next_hop: IPv4Address, space: IPv4Network) -> None:
    """Raises FieldError for a firewall in the network itself: its traffic would come back to it."""
    if next_hop in space:
        raise FieldError(
            f"{next_hop} is in `{space}`, the network's own range",
            "give the address of a firewall in a connected network",
            ("egress", "next_hop"),
        )


def require_nat(service_endpoints: Iterable[str]) -> None:
    """Raises FieldError if nodes would not come to a vault from the NAT gateway's address, by which
    it admits them."""
    if "Microsoft.KeyVault" in service_endpoints:
        raise FieldError(
            "nodes could not reach the vault: it admits the address of the NAT gateway, and "
            "with this endpoint they come from their own",
            "leave `Microsoft.KeyVault` out, or let the network have private endpoints",
            ("service_endpoints",),
        )


def require_no_overlap(
    network: IPv4Network, other: IPv4Network, whose: str, *, path: DataPath, hint: str
) -> None:
    """Raises FieldError at `path` if `network` overlaps `other`, which belongs to `whose`."""
    if network.overlaps(other):
        raise FieldError(f"`{network}` overlaps {whose} {other}", hint, path)


def subnet_plan(address_space: IPv4Network) -> dict[str, IPv4Network]:
    """Returns the subnet of each role in a space with a prefix of LONGEST_PREFIX or shorter."""
    compute, rest = address_space.subnets(prefixlen_diff=1)
    size = rest.num_addresses >> (_BLOCK_BITS - 1)
    prefix = address_space.prefixlen + _BLOCK_BITS
    start = int(rest.network_address)
    return {
        role: compute if each.block is None else IPv4Network((start + each.block * size, prefix))
        for role, each in SUBNETS.items()
    }


_URL = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65_535
# Names, addresses and ranges, also with a leading dot: no character that ends a list or a line.
_DIRECT_NAME = matching(
    r"[A-Za-z0-9.*][A-Za-z0-9.:/_-]*",
    "`{}` is neither a name nor an address",
    "write names, names with a leading dot, addresses or ranges, each as an item",
)


def _ports(text: str) -> None:
    match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if text != "*" and not (
        match and 0 < int(match[1]) <= int(match[2] or match[1]) <= _LARGEST_PORT
    ):
        raise FieldError(f"`{text}` is no port", 'write "443", a range as "8000-8999", or "*"')


Port = Annotated[str, Check(_ports)]
RuleName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,73}[A-Za-z0-9_])?",
        "`{}` cannot be the name of a security rule",
        "letters, digits, dots, hyphens and underscores, at most 75: SshFromOffice",
    ),
]


def _proxy_url(url: str) -> str:
    # Not repeated in the message: it may hold a password.
    if "@" in url:
        raise FieldError(
            "a user or password in a proxy's address would be kept in Terraform's state, "
            "and be readable on every machine",
            "let the proxy admit the machines' subnets without a sign-in",
        )
    bare = url.removesuffix("/")
    found = _URL.fullmatch(bare)
    if found is None or not 0 < int(found["port"]) <= _LARGEST_PORT:
        raise FieldError(
            f"`{url}` is not the address of a proxy",
            "write its scheme, host and port: http://proxy.example.com:3128",
        )
    return bare


ProxyUrl = Annotated[str, AfterValidator(_proxy_url)]


class Proxy(Model, defer_build=True):
    """An HTTP proxy, without a sign-in, for the internet traffic of machines and jobs.

    Requests within the network, to Azure's metadata service and to the environment's own services
    do not go through it.
    """

    http: ProxyUrl
    """The proxy's address for http, for example http://proxy.example.com:3128."""
    https: ProxyUrl | None = None
    """The proxy's address for https; by default that for http."""
    no_proxy: tuple[Annotated[str, _DIRECT_NAME], ...] = ()
    """Further hosts to reach without the proxy: names, `.example.com` for a domain and all its
    hosts, addresses, ranges."""

    @property
    def addresses(self) -> list[IPv4Address]:
        """The proxy's IP addresses; host names are left out."""
        found = []
        for url in (self.http, self.https or self.http):
            with suppress(AddressValueError):
                found.append(IPv4Address(urlsplit(url).hostname or ""))
        return found
