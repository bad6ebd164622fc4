"""Networks and subnets, and which box stands where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.diagram.picture import Arrow, Group, Kind, Node
from fairway_core.diagram.terraform import nested, text, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.diagram.picture import Picture
    from fairway_core.diagram.terraform import Resource, Terraform

_THERE_ALREADY = "there already"
# The arguments that say in which subnet a resource stands.
_SUBNETS = ("subnet_id", "vnet_subnet_id")


def group_by_network(
    terraform: Terraform, drawn: Mapping[Resource, Node], picture: Picture
) -> None:
    """Puts networks with their subnets into the picture, and each box where it stands.

    What stands in no subnet, such as an account, stands beside the networks.
    """
    subnets = _Subnets(terraform, picture)
    placed: set[str] = set()
    for resource, node in drawn.items():
        subnet = subnets.of(resource)
        if subnet is not None and node.id not in placed:
            subnet.nodes.append(node)
            placed.add(node.id)
    for gateway in terraform.of("nat_gateway"):
        if picture.groups:
            picture.groups[0].nodes.append(drawn[gateway])
            placed.add(drawn[gateway].id)
    _add_peerings(terraform, subnets, picture)
    others = {node.id: node for node in drawn.values() if node.id not in placed}
    picture.nodes += others.values()
    for network in picture.groups:
        _fold_empty(network)


class _Subnets:
    """The groups of networks and subnets; those that were there already come as they are met."""

    def __init__(self, terraform: Terraform, picture: Picture) -> None:
        self._terraform = terraform
        self._picture = picture
        self.networks: dict[Resource | str, Group] = {}
        self._subnets: dict[Resource | str, Group] = {}
        for network in terraform.of("virtual_network"):
            spaces = ", ".join(network.arguments.get("address_space", ()))
            group = Group(network.id, network.name, ("virtual network", spaces))
            self.networks[network] = group
            picture.groups.append(group)
        for subnet in terraform.of("subnet"):
            ranges = ", ".join(subnet.arguments.get("address_prefixes", ()))
            group = Group(subnet.id, subnet.name, (ranges,))
            self._subnets[subnet] = group
            for network in terraform.argument(subnet, "virtual_network_name"):
                self.networks[network].groups.append(group)

    def of(self, resource: Resource) -> Group | None:
        """The subnet that the resource stands in, itself or by its network interface."""
        for argument in _SUBNETS:
            for subnet in self._terraform.argument(resource, argument):
                if subnet in self._subnets:
                    return self._subnets[subnet]
            for given in nested(resource.arguments, argument):
                for each in texts(given):
                    if "/subnets/" in each:
                        return self._there_already(each)
        return None

    def _there_already(self, subnet_id: str) -> Group:
        if subnet_id not in self._subnets:
            network_id, _, name = subnet_id.partition("/subnets/")
            number = len(self._subnets)
            self._subnets[subnet_id] = Group(f"subnet_{number}", name, (_THERE_ALREADY,))
            if network_id not in self.networks:
                title = network_id.rpartition("/")[2]
                network = Group(f"network_{number}", title, (f"virtual network, {_THERE_ALREADY}",))
                self.networks[network_id] = network
                self._picture.groups.append(network)
            self.networks[network_id].groups.append(self._subnets[subnet_id])
        return self._subnets[subnet_id]


def _add_peerings(terraform: Terraform, subnets: _Subnets, picture: Picture) -> None:
    """A box in the network and one of the network at the other end, for each peering from here."""
    for peering in terraform.of("virtual_network_peering"):
        remote = text(peering.arguments.get("remote_virtual_network_id"))
        here = terraform.argument(peering, "virtual_network_name")
        if not here or not remote.startswith("/"):
            continue  # the other half of one that starts here
        network = subnets.networks[here[0]]
        gateway = peering.arguments.get("use_remote_gateways") is True
        lines = ("peering", *(("through its gateway",) if gateway else ()))
        node = Node(peering.id, Kind.NETWORK, peering.name, lines)
        other = Node(
            f"{peering.id}_other",
            Kind.NETWORK,
            remote.rpartition("/")[2],
            (f"virtual network, {_THERE_ALREADY}",),
        )
        network.nodes.append(node)
        picture.nodes.append(other)
        picture.arrows.append(Arrow(node.id, other.id, "peering"))


def _fold_empty(network: Group) -> None:
    """A subnet that nothing stands in is a box: a group around nothing cannot be drawn."""
    for subnet in list(network.groups):
        if not subnet.nodes:
            network.groups.remove(subnet)
            network.nodes.append(
                Node(subnet.id, Kind.NETWORK, subnet.title, ("empty subnet", *subnet.lines))
            )
