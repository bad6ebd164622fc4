"""The network of an environment: new or existing, its internet access, and its DNS."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from fairway_core.catalog.terraform_types import private_link, private_links
from fairway_core.documents import Check, FieldError, Model, rule
from fairway_core.environment.addresses import (
    Proxy,
    check_space,
    require_free,
    require_outside,
    subnet_plan,
)
from fairway_core.environment.values import Address, Range, below_path, require_azure_names
from fairway_core.resource_ids import SubnetId, VirtualNetworkId, network_of, parts_of
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.yaml_text import DataPath


class Dns(Model, defer_build=True):
    """DNS servers of the network, and the zones in which private endpoints have their names.

    >>> dns = Dns(servers=["10.0.0.4"])
    """

    servers: tuple[Address, ...] = Field(default=(), max_length=20)
    """Addresses of DNS servers for nodes, for example those of a hub; by default Azure's own."""
    zones: Literal["make", "none"] | dict[str, str] = "make"
    """`make` creates the private DNS zones of the endpoints and links them to the network; `none`
    leaves them to a policy of the hub's owner. Or give the ids of existing zones, by service:
    `blob`, `batch`, `vault`, `registry`, `file`."""

    @field_validator("zones")
    @classmethod
    def _zones_of_services(cls, zones: str | dict[str, str]) -> str | dict[str, str]:
        for service, zone in zones.items() if isinstance(zones, dict) else ():
            if service not in private_links():
                hint = did_you_mean(service, private_links())
                raise FieldError(f"there is no service `{service}`", hint, (service,))
            wanted = private_link(service).zone
            with below_path(service):
                name = parts_of("private DNS zone", zone)["name"]
            if name != wanted:
                raise FieldError(
                    f"`{name}` is not the zone of `{service}`", f"the zone is {wanted}", (service,)
                )
        return zones

    @property
    def existing_zones(self) -> dict[str, str] | None:
        """The ids of existing zones by name, or None if Fairway creates the zones."""
        if self.zones == "make":
            return None
        found = self.zones if isinstance(self.zones, dict) else {}
        return {private_link(service).zone: zone for service, zone in found.items()}

    def check_zones(self, services: Iterable[str]) -> None:
        """Raises FieldError if the private endpoints of these services have no zone."""
        if not isinstance(self.zones, dict):
            return
        known = self.existing_zones or {}
        missing = sorted({each for each in services if private_link(each).zone not in known})
        if missing:
            raise FieldError(
                f"no zone for {', '.join(missing)}: nodes could not resolve their names",
                "add "
                + ", ".join(f"`{each}: ID` of {private_link(each).zone}" for each in missing),
                ("network", "dns", "zones"),
            )


# Settings that also have an effect in an existing network.
_WITH_EXISTING = frozenset({"existing", "private_endpoints", "dns", "proxy"})


class Firewall(Model, defer_build=True):
    """Internet access through an existing firewall, in a network of `peerings:`.

    >>> firewall = Firewall(next_hop="10.0.0.4")
    """

    next_hop: Address
    """The private address of the firewall."""


class Peering(Model, defer_build=True):
    """A peering with an existing virtual network, in any subscription."""

    network: VirtualNetworkId
    """The id of the other network."""
    both_ways: bool = True
    """Create the peering on the other network too; `false` if its owner does that."""
    gateway: bool = False
    """Use the other network's VPN or ExpressRoute gateway."""


class ExistingSubnet(Model, defer_build=True):
    """An existing subnet and its address range, which Terraform compares with Azure's."""

    id: SubnetId
    """The id of the subnet."""
    range: Annotated[Range, Check(require_free)]
    """Address range of the subnet, for example 10.1.0.0/20."""


class ExistingSubnets(Model, defer_build=True):
    """The subnet for each purpose, all in one virtual network; only `compute` is always needed."""

    compute: ExistingSubnet
    """For nodes, which must reach each other on all ports."""
    storage: ExistingSubnet | None = None
    """For NFS servers; nodes reach them on port 2049."""
    management: ExistingSubnet | None = None
    """For machines from which people reach nodes over SSH."""
    endpoints: ExistingSubnet | None = None
    """For private endpoints; nodes reach them on port 443, and file shares on 2049."""
    netapp: ExistingSubnet | None = None
    """For NetApp volumes, delegated to Microsoft.NetApp/volumes; nodes reach port 2049."""
    lustre: ExistingSubnet | None = None
    """For Managed Lustre; it and nodes reach each other on ports 988 and 1019 to 1023."""

    kubernetes: ExistingSubnet | None = None
    """For nodes of Kubernetes, with internet access by a route table that its owner attaches; by
    default they are in `compute`, which then needs one."""

    @property
    def by_role(self) -> dict[str, ExistingSubnet]:
        """The subnets that are given, by role."""
        subnets = {role: getattr(self, role) for role in type(self).model_fields}
        return {role: subnet for role, subnet in subnets.items() if subnet is not None}

    @rule
    def _one_network(self) -> None:
        home = network_of(self.compute.id).lower()  # Azure ignores case in ids
        for role, subnet in self.by_role.items():
            if network_of(subnet.id).lower() != home:
                raise FieldError(
                    f"`{role}` and `compute` are subnets of different virtual networks",
                    "name subnets of one network",
                    (role, "id"),
                )
            for other, second in self.by_role.items():
                if other < role and subnet.range.overlaps(second.range):
                    raise FieldError(
                        f"`{role}` and `{other}` have addresses in common",
                        "write the range that each subnet really has: az network vnet subnet list",
                        (role, "range"),
                    )


class Existing(Model, defer_build=True):
    """An existing network. Fairway changes nothing in it; its owner sets its rules."""

    subnets: ExistingSubnets
    """The subnets to use."""


class Network(Model, defer_build=True):
    """The virtual network: its address space, and how nodes reach the internet and services.

    With `private_endpoints`, storage, vault, registry and Batch have an address inside it and
    none outside. Each endpoint costs about 7 USD a month, plus 0.01 USD per GB. Without them the
    services have public addresses.
    """

    address_space: Annotated[Range, Check(check_space)] = IPv4Network("10.40.0.0/16")
    """The address range of the network, divided among its subnets."""
    egress: Literal["nat", "none"] | Firewall = "nat"
    """The route from nodes to the internet: a NAT gateway, none, or an existing firewall."""
    proxy: Proxy | None = None
    """An HTTP proxy for the internet traffic of machines and jobs."""
    private_endpoints: bool = True
    """Give services an address inside the network, and none outside."""
    service_endpoints: tuple[Literal["Microsoft.Storage", "Microsoft.KeyVault"], ...] = (
        "Microsoft.Storage",
    )
    """Azure services whose firewalls may admit nodes by their subnet."""
    dns: Dns = Field(default_factory=Dns)
    """DNS servers, and the private DNS zones of endpoints."""
    peerings: Annotated[dict[str, Peering], Check(require_azure_names)] = Field(
        default_factory=dict
    )
    """Virtual networks to connect with, each under a name of your choice."""
    existing: Existing | None = None
    """Existing subnets to use, in place of a new network."""

    @rule
    def _existing_is_left_as_it_is(self) -> None:
        for field in sorted(self.model_fields_set - _WITH_EXISTING) if self.existing else ():
            raise FieldError(
                f"`{field}:` has no effect on an existing network",
                "leave it out: it is up to the owner of the network",
                (field,),
            )

    @rule
    def _dns_has_an_effect(self) -> None:
        if self.existing and self.dns.servers:
            raise FieldError(
                "the owner of an existing network sets its DNS servers",
                "leave them out",
                ("dns", "servers"),
            )
        if not self.private_endpoints and self.dns.zones != "make":
            raise FieldError(
                "without private endpoints there are no private DNS zones",
                "leave it out",
                ("dns", "zones"),
            )

    @rule
    def _nodes_reach_their_storage(self) -> None:
        is_needed = not self.existing and not self.private_endpoints
        if is_needed and "Microsoft.Storage" not in self.service_endpoints:
            raise FieldError(
                "without private endpoints nodes reach the storage account through a "
                "service endpoint of their subnet",
                "keep `Microsoft.Storage` in it",
                ("service_endpoints",),
            )

    @rule
    def _the_firewall_is_in_reach(self) -> None:
        if isinstance(self.egress, Firewall):
            require_outside(self.egress.next_hop, self.address_space)
        if isinstance(self.egress, Firewall) and not self.peerings:
            raise FieldError(
                f"{self.egress.next_hop} is in no connected network",
                "name the network of the firewall under `peerings:`",
                ("egress",),
            )
        gateways = [name for name, peering in self.peerings.items() if peering.gateway]
        if len(gateways) > 1:
            raise FieldError(
                "a network can use the gateway of only one other",
                "keep one `gateway: true`",
                ("peerings", gateways[1], "gateway"),
            )

    @rule
    def _each_network_has_one_peering(self) -> None:
        names: dict[str, str] = {}
        for name, peering in self.peerings.items():
            first = names.setdefault(peering.network.lower(), name)
            if first != name:
                raise FieldError(
                    f"`{first}` is a peering with this network already, and Azure makes no second",
                    "keep one of the two",
                    ("peerings", name, "network"),
                )

    @rule
    def _the_proxy_is_in_reach(self) -> None:
        if self.proxy is None or self.existing or self.peerings:
            return
        for address in self.proxy.addresses:
            is_outside = self.egress != "none" and not address.is_private
            if address not in self.address_space and not is_outside:
                raise FieldError(
                    f"{address} is in no connected network",
                    "name the network of the proxy under `peerings:`",
                    ("proxy",),
                )

    @property
    def is_closed(self) -> bool:
        """True if nothing on the internet can be reached."""
        return self.egress == "none" and self.proxy is None

    @property
    def ranges(self) -> dict[DataPath, IPv4Network]:
        """The known address ranges, by their paths in this section."""
        if self.existing is None:
            return {("address_space",): self.address_space}
        return {
            ("existing", "subnets", role, "range"): subnet.range
            for role, subnet in self.existing.subnets.by_role.items()
        }

    def subnet_range(self, role: str) -> IPv4Network:
        """Returns the address range of the subnet with a role, which must exist."""
        if self.existing is not None:
            return self.existing.subnets.by_role[role].range
        return subnet_plan(self.address_space)[role]

    def too_small(self, message: str) -> FieldError:
        """Returns the error for a subnet that has too few addresses."""
        where = "existing" if self.existing else "address_space"
        hint = "use a larger subnet" if self.existing else "use a larger `address_space:`"
        return FieldError(message, hint, ("network", where))

    @property
    def kubernetes_role(self) -> str:
        """The role of the subnet with Kubernetes nodes: `kubernetes`, or `compute` in an existing
        network without that subnet."""
        if self.existing is not None and self.existing.subnets.kubernetes is None:
            return "compute"
        return "kubernetes"

    @property
    def makes_zones(self) -> bool:
        """True if Fairway creates private DNS zones for the private endpoints."""
        return self.private_endpoints and self.dns.zones == "make"

    @property
    def has_nat(self) -> bool:
        """True if services see all nodes at the one address of a NAT gateway."""
        return self.existing is None and self.egress == "nat"
