"""The virtual network: a subnet for each role, closed by default, with one egress."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Literal

from fairway_constructs.azurerm.data_subnet import DataSubnet
from fairway_constructs.azurerm.key_vault import KeyVault
from fairway_constructs.azurerm.network_security_group import NetworkSecurityGroup, SecurityRule
from fairway_constructs.azurerm.subnet import (
    Delegation,
    DelegationServiceDelegation,
    ServiceEndpoint,
    Subnet,
)
from fairway_constructs.azurerm.subnet_network_security_group_association import (
    SubnetNetworkSecurityGroupAssociation,
)
from fairway_constructs.azurerm.virtual_network import VirtualNetwork
from fairway_constructs.bastion import Bastion
from fairway_constructs.cdk import Component, Validation, context_of, refuse
from fairway_constructs.egress import FirewallEgress, NatEgress
from fairway_constructs.network_access import InRange, SubnetRef
from fairway_constructs.network_rules import (
    DENY_THE_REST,
    MOST_RULES,
    NetworkRules,
    allow,
    priority,
)
from fairway_constructs.private_endpoint import PrivateEndpoints
from fairway_constructs.scope import precondition
from fairway_core.catalog.tables import look_up
from fairway_core.documents import FieldError
from fairway_core.environment.addresses import (
    EVERY_NETWORK,
    SUBNETS,
    SubnetRole,
    check_space,
    require_free,
    require_nat,
    require_no_overlap,
    require_outside,
    require_private,
    subnet_plan,
)
from fairway_core.findings import UserError
from fairway_core.resource_ids import network_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fairway_constructs.cdk import Construct, Resource
    from fairway_core.environment import Dns, Firewall
    from fairway_core.environment.addresses import Port, RuleName
    from fairway_core.resource_ids import ObjectId

# Source: Azure documentation, Azure Virtual Network frequently asked questions.
_SMALLEST_SUBNET = 29
_DELEGATED_ACTIONS = [
    "Microsoft.Network/networkinterfaces/*",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
]
_OF_FILESYSTEMS = {role: each for role, each in SUBNETS.items() if each.filesystem}


class INetwork(Component):
    """A new or existing virtual network: its subnets, by role.

    `add_subnet` creates more, and `allow_from` opens ports of subnets created here. `endpoints`
    creates private endpoints in the network, if services are reached by these; otherwise services
    know the nodes by `egress_address`, if there is one. `id`, `name` and `resource_group` are those
    of the network.

    >>> network.subnet("compute").id
    >>> network.allow_from([h100, "10.9.0.0/24"], to="compute", name="Web", port="443")
    """

    subnets: dict[str, SubnetRef]
    endpoints: PrivateEndpoints | None = None
    bastion: Bastion | None = None
    egress_address = ""
    space: IPv4Network | None = None
    id = ""
    name: str
    resource_group: str
    _service_endpoints: Sequence[str] = ()
    _egress: NatEgress | FirewallEgress | None = None
    _nodes: tuple[IPv4Network, ...] = ()
    # Ranges of the network that are in use outside the subnets of `subnets`.
    _beside: dict[str, IPv4Network]

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.subnets, self._beside = {}, {}
        self.security_groups: dict[str, NetworkSecurityGroup] = {}

    def subnet(self, role: str) -> SubnetRef:
        """Returns the subnet with that role. Raises UserError if there is none."""
        return look_up(role, self.subnets, "subnet")

    def add_subnet(self, name: str, addresses: IPv4Network | str) -> SubnetRef:
        """Creates a subnet for a program's own resources, with the egress of a new network.

        It is closed until `allow_from` opens ports. Raises UserError for a range that is not free.
        """
        space = IPv4Network(addresses)
        require_free(space, path=("addresses",))
        if space.prefixlen > _SMALLEST_SUBNET:
            hint = (
                f"a subnet has a length of /{_SMALLEST_SUBNET} at most, and Azure takes 5 addresses"
            )
            raise FieldError(f"{space} is too small for a subnet", hint, ("addresses",))
        taken = self._beside | {role: each.range for role, each in self.subnets.items()}
        other = next((role for role, each in taken.items() if each.overlaps(space)), "")
        if other or (self.space and not space.subnet_of(self.space)):
            around = self.space or "the network"
            raise UserError.of(
                "bad-subnet",
                f"{space} is not free in {around}" + (f": `{other}` has it" if other else ""),
                "choose a range inside the address space, beside those of `network.subnets`",
            )
        self.subnets[name] = self._subnet(name, space, [DENY_THE_REST])
        return self.subnets[name]

    def allow_from(
        self,
        sources: Sequence[IPv4Network | str | InRange],
        *,
        to: str,
        name: RuleName,
        port: Port | Sequence[Port],
        protocol: Literal["Tcp", "Udp", "*"] = "Tcp",
    ) -> None:
        """Lets ranges reach ports of the subnet with role `to`; `name` is the rule's.

        A subnet, or a construct in one, stands for the range of the subnet. Raises UserError for an
        existing subnet, whose rules belong to its owner.
        """
        subnet, group = self.subnet(to), self.security_groups.get(to)
        if group is None:
            message = f"the rules of the existing subnet `{to}` are its owner's"
            raise UserError.of("not-ours", message, "add them there, or use `add_subnet`")
        ranges = [
            each.range if isinstance(each, InRange) else IPv4Network(each) for each in sources
        ]
        *rules, last = group.given("security_rule")
        if not (ranges and port):
            empty = "port" if ranges else "sources"
            raise FieldError("the rule would let nobody in", f"name some `{empty}`", (empty,))
        if f"Allow{name}" in [each["name"] for each in rules]:
            message = f"`{to}` has a rule of that name already"
            raise FieldError(message, "give this one another", ("name",))
        opened = context_of(self).addresses.opened
        opened["allowed"] = (*opened.get("allowed", ()), *ranges)
        rule = allow(
            name,
            ranges,
            [subnet.range],
            port=port,
            protocol=protocol,
        )
        if len(rules) == MOST_RULES:
            hint = "give one rule several ports or sources"
            raise UserError.of("many-rules", f"`{to}` has {MOST_RULES} rules already", hint)
        group.set_argument("security_rule", [*rules, rule(priority=priority(len(rules))), last])

    def _offer_endpoints(self, dns: Dns | None) -> None:
        zones = dns.existing_zones if dns else None
        self.endpoints = PrivateEndpoints(self, network=self, existing_zones=zones)

    def _subnet(
        self, role: str, addresses: IPv4Network, rules: Sequence[SecurityRule]
    ) -> SubnetRef:
        azure = self.azure
        known = SUBNETS.get(role, SubnetRole())
        group = NetworkSecurityGroup(
            self,
            f"{role}-rules",
            name=azure.name("network_security_group", role),
            **azure.common,
            security_rule=rules,
        )
        self.security_groups[role] = group
        subnet = Subnet(
            self,
            role,
            name=azure.name("subnet", role),
            resource_group_name=self.resource_group,
            virtual_network_name=self.name,
            address_prefixes=[str(addresses)],
            default_outbound_access_enabled=False,
            # Without it the rules would not apply to private endpoints.
            private_endpoint_network_policies=(
                "NetworkSecurityGroupEnabled" if role == "endpoints" else None
            ),
            service_endpoint=(
                [ServiceEndpoint(service=name) for name in self._service_endpoints] or None
                if known.uses_services
                else None
            ),
            delegation=(
                [
                    Delegation(
                        name="service",
                        # Azure adds them by itself, and the next plan would remove them.
                        service_delegation=DelegationServiceDelegation(
                            name=known.delegated, actions=_DELEGATED_ACTIONS
                        ),
                    )
                ]
                if known.delegated
                else None
            ),
        )
        subnet_id = subnet.id
        has_rules = SubnetNetworkSecurityGroupAssociation(
            self, f"{role}-has-rules", subnet_id=subnet_id, network_security_group_id=group.id
        )
        ready: list[Resource] = [has_rules]
        if self._egress and not known.delegated:
            ready.append(self._egress.attach(role, subnet_id))
        return SubnetRef(subnet_id, addresses, tuple(ready), self._nodes)


class _VaultsInReach(Validation):
    """The rule that nodes come to a vault from the address by which it admits them."""

    def __init__(self, network: Network, service_endpoints: Sequence[str]) -> None:
        self._network, self._service_endpoints = network, service_endpoints

    def validate(self) -> list[str]:
        """Returns the error of the network if a vault in any stack of its app is out of reach."""
        network = self._network
        try:
            require_nat(self._service_endpoints)
        except FieldError as error:
            address = f"{network.egress_address}/32"
            vaults = [
                each for each in network.node.root.node.find_all() if isinstance(each, KeyVault)
            ]
            if any(address in str(vault.given("network_acls")) for vault in vaults):
                message = f"{network._inside.name}: {error}"
                refuse(UserError.of("bad-argument", message, error.hint))
                return [message]
        return []


class Network(INetwork):
    """A virtual network with subnets for compute, storage and management.

    With `private_endpoints` there is one for these too, and `endpoints` creates them. Nodes reach
    the internet by a NAT gateway, which alone has a public address; with another `egress` by a
    firewall in a connected network, or not at all. Only the traffic in `network_rules` may come in.
    `allowed` are ranges that may use SSH, such as a VPN's. With `bastion` there is one for the
    `admins`: see `Bastion`. `filesystems` are the kinds that need a subnet of their own, `netapp`
    and `lustre`; with `nfs_3` servers in the storage subnet also speak that version. `dns` selects
    the servers that resolve names, and existing zones.

    With `pods`, the address range of pods, there is a subnet for Kubernetes nodes; ranges of `web`
    reach the compute subnet over HTTPS. `add_subnet` creates more, and `allow_from` opens ports.

    Raises UserError for an address space that cannot be divided into these subnets or overlaps
    `pods`, and for a kind of file system without a subnet of its own.

    >>> network = Network(stack, address_space="10.40.0.0/16",
    ...                   allowed=["203.0.113.0/24"])
    >>> network.subnets["compute"].id
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "network",
        *,
        address_space: IPv4Network | str,
        allowed: Sequence[IPv4Network | str] = (),
        private_endpoints: bool = False,
        egress: Literal["nat", "none"] | Firewall = "nat",
        service_endpoints: Sequence[str] = ("Microsoft.Storage",),
        bastion: bool = False,
        admins: Sequence[ObjectId] = (),
        filesystems: Collection[str] = (),
        nfs_3: bool = False,
        dns: Dns | None = None,
        pods: IPv4Network | None = None,
        web: Sequence[IPv4Network] = (),
    ) -> None:
        super().__init__(scope, id)
        space = self.space = IPv4Network(address_space)
        check_space(space)
        if pods:
            hint = "use a range outside of it, for example 10.244.0.0/16"
            require_no_overlap(pods, space, "the network's", path=("pods",), hint=hint)
        ranges = [IPv4Network(each) for each in allowed]
        require_private(space, ranges)
        context_of(self).addresses.opened |= {
            "allowed": tuple(ranges),
            "bastion": bastion,
            "private_endpoints": private_endpoints,
        }
        for each in filesystems:
            look_up(each, _OF_FILESYSTEMS, "file-system-with-a-subnet")
        self.virtual_network = self._virtual_network(space, dns)
        self._service_endpoints = service_endpoints
        if egress == "nat":
            self._egress = NatEgress(self)
        elif egress != "none":
            require_outside(egress.next_hop, space)
            self._egress = FirewallEgress(self, next_hop=egress.next_hop)
        self.egress_address = self._egress.address if self._egress else ""
        if self.egress_address and not private_endpoints:
            self.node.add_validation(_VaultsInReach(self, service_endpoints))
        plan = subnet_plan(space)
        rules = NetworkRules(
            subnets=plan,
            allowed=ranges,
            bastion=bastion,
            lustre="lustre" in filesystems,
            nfs_3=nfs_3,
            pods=pods,
            web=web,
        )
        roles = [*EVERY_NETWORK, *(["endpoints"] if private_endpoints else [])]
        roles += [*sorted(filesystems), *(["kubernetes"] if pods else [])]
        self._nodes = (plan["compute"], *([plan["kubernetes"]] if pods else []))
        self.subnets = {role: self._subnet(role, plan[role], rules.of(role)) for role in roles}
        if private_endpoints:
            self._offer_endpoints(dns)
        if bastion:
            self._beside = {"bastion": plan["bastion"]}
            self.bastion = Bastion(
                self,
                network=self,
                addresses=plan["bastion"],
                allowed=ranges,
                admins=admins,
            )

    def _virtual_network(self, space: IPv4Network, dns: Dns | None) -> VirtualNetwork:
        azure = self.azure
        made = VirtualNetwork(
            self,
            "vnet",
            name=azure.name("virtual_network"),
            **azure.common,
            address_space=[str(space)],
            dns_servers=[str(each) for each in dns.servers] or None if dns else None,
        )
        self.id, self.name, self.resource_group = made.id, made.name, azure.resource_group
        return made

    @classmethod
    def from_id(
        cls,
        scope: Construct,
        id: str,
        network_id: str,
        *,
        subnets: Mapping[str, tuple[str, IPv4Network | str]],
        private_endpoints: bool = False,
        dns: Dns | None = None,
    ) -> INetwork:
        """Returns an existing network with some of its subnets: by role, the name and the range.

        Everything else is as for `from_subnets`.
        """
        parts = parts_of("virtual network", network_id)
        by_id = {
            role: (f"{network_id}/subnets/{name}", range_)
            for role, (name, range_) in subnets.items()
        }
        found = cls.from_subnets(scope, id, by_id, private_endpoints=private_endpoints, dns=dns)
        found.id, found.name = network_id, parts["name"]
        found.resource_group = parts["resource_group"]
        return found

    @classmethod
    def from_subnets(
        cls,
        scope: Construct,
        id: str,
        subnets: Mapping[str, tuple[str, IPv4Network | str]],
        *,
        private_endpoints: bool = False,
        dns: Dns | None = None,
    ) -> INetwork:
        """Returns existing subnets of one virtual network, the id and the range of each by role.

        None is created, and their rules stay. Terraform stops if a subnet has another range in
        Azure: file servers admit nodes by it. With `private_endpoints` the endpoints are created in
        the subnet `endpoints`, and their DNS zones are linked to the network.

        >>> network = Network.from_subnets(stack, "network", {"compute": (ID, "10.1.0.0/20")})
        """
        if len({network_of(each).lower() for each, _ in subnets.values()}) > 1:
            message = "the subnets are of several networks"
            raise FieldError(message, "name subnets of one network", ("subnets",))
        found = INetwork(scope, id)
        ranges = {role: IPv4Network(addresses) for role, (_, addresses) in subnets.items()}
        for role, each in ranges.items():
            require_free(each, path=("subnets", role))
        found._nodes = tuple(ranges[role] for role in ("compute", "kubernetes") if role in ranges)
        for role, (subnet_id, _) in subnets.items():
            parts = parts_of("subnet", subnet_id)
            found.id = found.id or network_of(subnet_id)
            found.name, found.resource_group = parts["network"], parts["resource_group"]
            subnet = DataSubnet(
                found,
                role,
                name=parts["name"],
                virtual_network_name=parts["network"],
                resource_group_name=parts["resource_group"],
            )
            precondition(
                found,
                f"subnet_{role}",
                f'contains({subnet.reference("address_prefixes")}, "{ranges[role]}")',
                f"{parts['name']} does not have the range {ranges[role]}: correct that of "
                f"the existing subnet `{role}`",
                value=subnet_id,
                description=f"Existing subnet for {role}",
            )
            found.subnets[role] = SubnetRef(subnet_id, ranges[role], nodes=found._nodes)
        if private_endpoints:
            found._offer_endpoints(dns)
        return found
