"""How the address space of an environment is cut into subnets."""

from __future__ import annotations

from ipaddress import IPv4Network

from fairway_core.documents import FieldError
from fairway_core.environment.values import WIDEST_RANGE

# The first half belongs to the compute nodes. The second half is cut into sixteen equal
# blocks, and a role keeps its block for ever: a new role takes a free one and moves nobody.
_BLOCKS = {
    "storage": 0,
    "management": 1,
    "endpoints": 2,
    "bastion": 3,
    "netapp": 4,
    "lustre": 5,
    "kubernetes": 6,
}
_BLOCK_BITS = 5

# The subnets that every network has; others are there where something needs them.
EVERY_NETWORK = ("compute", "storage", "management")

# The smallest block must still hold Azure's largest demand on a small subnet, a /26.
LONGEST_PREFIX = 26 - _BLOCK_BITS


def check_space(space: IPv4Network) -> None:
    """Raises FieldError for a range that Azure takes for no network, or that has no room for all
    subnets."""
    if not WIDEST_RANGE <= space.prefixlen <= LONGEST_PREFIX:
        raise FieldError(
            f"`{space}` cannot be cut into subnets",
            f"use a length of /{WIDEST_RANGE} to /{LONGEST_PREFIX}, for example /16",
        )


def subnet_plan(address_space: IPv4Network) -> dict[str, IPv4Network]:
    """The subnet of each role; `address_space` has a prefix of LONGEST_PREFIX or shorter.

    >>> plan = subnet_plan(IPv4Network("10.40.0.0/16"))
    >>> str(plan["compute"]), str(plan["storage"]), str(plan["management"])
    ('10.40.0.0/17', '10.40.128.0/21', '10.40.136.0/21')
    """
    compute, rest = address_space.subnets(prefixlen_diff=1)
    size = rest.num_addresses >> (_BLOCK_BITS - 1)
    prefix = address_space.prefixlen + _BLOCK_BITS
    plan = {"compute": compute}
    for role, block in _BLOCKS.items():
        plan[role] = IPv4Network((int(rest.network_address) + block * size, prefix))
    return plan
