"""Ranges of a network in the forms that its users need, and the ports of NFS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fairway_constructs.arguments import checked
from fairway_core.documents import FieldError
from fairway_core.public_ranges import internet_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Resource


# Storage and Batch accounts accept single addresses, and ranges no smaller than this.
# Source: azurerm provider, ip_rules of azurerm_storage_account and ip_range of
# azurerm_batch_account ("number of bits (0-30) as prefix").
_SMALLEST_RANGE = 30


@runtime_checkable
class InRange(Protocol):
    """A subnet, or a construct in one, such as a `Cluster`; `range` is the subnet's.

    >>> network.allow_from([h100], to="compute", name="Web", port="443")
    """

    @property
    def range(self) -> IPv4Network:
        """The addresses from which it is seen inside the network."""


@runtime_checkable
class Machines(Protocol):
    """Nodes, such as those of a `Cluster`; `id` is that of their scale set or VM.

    >>> h100.id, h100.range
    """

    @property
    def id(self) -> str:
        """Azure's id."""


@checked
@dataclass(frozen=True)
class SubnetRef:
    """A reference to a subnet: its id, to place resources in it, and its range, for rules.

    Resources in it wait for `ready`, such as its rules and its egress, if these are in the same
    stack. `nodes` are the ranges of its network from which file systems are mounted.

    >>> network.subnet("compute").range
    """

    id: str
    range: IPv4Network
    ready: tuple[Resource, ...] = ()
    nodes: tuple[IPv4Network, ...] = ()

    def clients(self, given: Sequence[IPv4Network] | None) -> Sequence[IPv4Network]:
        """Returns the ranges from which a file system here is mounted: the given ones, or `nodes`.

        Raises FieldError if there are none.
        """
        found = self.nodes if given is None else given
        if not found:
            hint = 'name the ranges of nodes: clients=[network.subnet("compute").range]'
            raise FieldError("nobody could mount it", hint, ("clients",))
        return found

    @property
    def address_pattern(self) -> str:
        """The subnet's addresses as a host name pattern of OpenSSH: complete octets, then a star.

        >>> from ipaddress import IPv4Network
        >>> SubnetRef("id", IPv4Network("10.40.0.0/17")).address_pattern
        '10.40.*'
        """
        octets = str(self.range.network_address).split(".")[: self.range.prefixlen // 8]
        return ".".join([*octets, "*"])


@runtime_checkable
class HasSubnets(Protocol):
    """A virtual network, such as a `Network`, with its subnets by role.

    >>> network.subnet("compute")
    """

    id: str
    name: str
    resource_group: str

    def subnet(self, role: str) -> SubnetRef:
        """Returns the subnet with that role. Raises UserError if there is none."""


def public_ranges(ranges: Sequence[IPv4Network | str], egress_address: str = "") -> list[str]:
    """Returns the ranges visible on the internet, as address/length, and the nodes' egress.

    >>> public_ranges(["203.0.113.7/32", "10.0.0.0/8"], "198.51.100.4")
    ['203.0.113.7/32', '198.51.100.4/32']
    """
    egress = [f"{egress_address}/32"] if egress_address else []
    return [str(network) for network in internet_ranges(ranges)] + egress


def public_addresses(ranges: Sequence[IPv4Network | str]) -> list[str]:
    """Returns the public ranges for storage and Batch accounts: /31 and /32 as single addresses.

    >>> public_addresses(["203.0.113.6/31", "198.51.100.0/24"])
    ['203.0.113.6', '203.0.113.7', '198.51.100.0/24']
    """
    rules: list[str] = []
    for network in internet_ranges(ranges):
        small = network.prefixlen > _SMALLEST_RANGE
        rules += [str(address) for address in network] if small else [str(network)]
    return rules


NFS = 2049

# Other ports of an NFS 3 server. Only rpcbind's is standard; the others would be random.
RPCBIND = 111
MOUNTD = 20048
STATD = 32765
LOCKD = 32803

SERVER_NFS_3 = (RPCBIND, MOUNTD, STATD, LOCKD)

# A server notifies clients when they get a lock, and after a restart to reclaim their locks.
CLIENT_NFS_3 = (RPCBIND, STATD, LOCKD)
