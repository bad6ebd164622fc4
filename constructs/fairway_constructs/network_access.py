"""Ranges of a network as others need them, and the ports of NFS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fairway_constructs.arguments import checked
from fairway_core.documents import FieldError
from fairway_core.public_ranges import seen_outside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct, ITerraformDependable, Resource


# Storage and Batch accounts take single addresses and ranges, but none smaller than this.
# Source: azurerm provider, ip_rules of azurerm_storage_account and ip_range of
# azurerm_batch_account ("number of bits (0-30) as prefix").
_SMALLEST_RANGE = 30


@runtime_checkable
class InRange(Protocol):
    """A subnet, or a construct that stands in one, such as a `Cluster`; `range` is the subnet's."""

    @property
    def range(self) -> IPv4Network:
        """Addresses from which it is seen inside the network."""


@runtime_checkable
class Machines(Protocol):
    """Nodes, such as a `Cluster` has; `id` is that of their scale set or VM."""

    @property
    def id(self) -> str:
        """Azure's id."""


@checked
@dataclass(frozen=True)
class SubnetRef:
    """A subnet as others need it: its id, to place things in it, and its range, for rules.

    What is placed there waits for `ready`, such as its rules and its way out, where that is in the
    same stack. `nodes` are the ranges of its network from which file systems are mounted.
    """

    id: str
    range: IPv4Network
    ready: tuple[Resource, ...] = ()
    nodes: tuple[IPv4Network, ...] = ()

    def ready_for(self, scope: Construct) -> list[ITerraformDependable]:
        """Lists what has to be there before resources in the subnet can be made in `scope`."""
        # Only now: boot data is measured without cdktf.
        from fairway_constructs.cdk import surroundings

        stack = surroundings(scope).stack
        return [each for each in self.ready if surroundings(each).stack is stack]

    def clients(self, given: Sequence[IPv4Network] | None) -> Sequence[IPv4Network]:
        """Returns the ranges from which a file system here is mounted: those given, or of `nodes`.

        Raises FieldError where there are none.
        """
        found = self.nodes if given is None else given
        if not found:
            hint = 'name the ranges of nodes: clients=[network.subnet("compute").range]'
            raise FieldError("nobody could mount it", hint, ("clients",))
        return found

    @property
    def address_pattern(self) -> str:
        """Its addresses as OpenSSH matches host names: whole octets, then a star.

        >>> from ipaddress import IPv4Network
        >>> SubnetRef("id", IPv4Network("10.40.0.0/17")).address_pattern
        '10.40.*'
        """
        octets = str(self.range.network_address).split(".")[: self.range.prefixlen // 8]
        return ".".join([*octets, "*"])


def public_ranges(ranges: Sequence[IPv4Network | str], egress_address: str = "") -> list[str]:
    """The ranges that are seen on the internet, each as address/length, and the nodes' way out.

    >>> public_ranges(["203.0.113.7/32", "10.0.0.0/8"], "198.51.100.4")
    ['203.0.113.7/32', '198.51.100.4/32']
    """
    egress = [f"{egress_address}/32"] if egress_address else []
    return [str(network) for network in seen_outside(ranges)] + egress


def public_addresses(ranges: Sequence[IPv4Network | str]) -> list[str]:
    """Ranges seen on the internet for storage and Batch accounts: /31 and /32 as single addresses.

    >>> public_addresses(["203.0.113.6/31", "198.51.100.0/24"])
    ['203.0.113.6', '203.0.113.7', '198.51.100.0/24']
    """
    rules: list[str] = []
    for network in seen_outside(ranges):
        small = network.prefixlen > _SMALLEST_RANGE
        rules += [str(address) for address in network] if small else [str(network)]
    return rules


NFS = 2049

# What else a server of NFS 3 listens on. Only rpcbind's is given; the others would be random.
RPCBIND = 111
MOUNTD = 20048
STATD = 32765
LOCKD = 32803

SERVER_NFS_3 = (RPCBIND, MOUNTD, STATD, LOCKD)

# A server tells clients when a lock is theirs, and after a restart to claim their locks again.
CLIENT_NFS_3 = (RPCBIND, STATD, LOCKD)
