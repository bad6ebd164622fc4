"""From the synthesized stacks of an environment to its picture: networks with their subnets, which
box stands where, and the arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.diagram.boxes import THERE_ALREADY, boxes
from fairway_core.diagram.picture import Arrow, Group, Kind, Node, Picture
from fairway_core.diagram.reach import arrows
from fairway_core.diagram.terraform import Terraform, text, texts
from fairway_core.json_values import nested

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.diagram.terraform import Resource

# The arguments that say in which subnet a resource stands.
_SUBNETS = ("subnet_id", "vnet_subnet_id")


def draw(stacks: Mapping[str, Mapping[str, Any]], title: str) -> Picture:
    """The picture of stacks, each the content of its `cdk.tf.json` by the stack's name.

    The same stacks give the same picture, whatever their order. What stands in no subnet, such as
    an account, stands beside the networks.

    >>> draw({}, "nothing").nodes
    []
    """
    terraform = Terraform(stacks)
    picture = Picture(title)
    drawn = boxes(terraform)
    # They come first: an arrow may need a box of its own at its end.
    found = list(arrows(terraform, drawn))
    networks = _Networks(terraform, picture)
    left = dict.fromkeys(drawn.values())
    for resource, node in drawn.items():
        subnet = networks.subnet_of(resource)
        if subnet is not None and node in left:
            subnet.nodes.append(node)
            del left[node]
    for gateway in terraform.of("nat_gateway"):
        if picture.groups:
            picture.groups[0].nodes.append(drawn[gateway])
            del left[drawn[gateway]]
    networks.add_peerings()
    picture.nodes += left
    picture.arrows += found
    for network in picture.groups:
        _fold_empty(network)
    return picture


class _Networks:
    """The groups of networks and subnets; those that were there already come as they are met."""

    def __init__(self, terraform: Terraform, picture: Picture) -> None:
        self._terraform = terraform
        self._picture = picture
        self._networks: dict[Resource | str, Group] = {}
        self._subnets: dict[Resource | str, Group] = {}
        for network in terraform.of("virtual_network"):
            spaces = ", ".join(network.arguments.get("address_space", ()))
            self._add(network, network.id, network.name, "virtual network", spaces)
        for subnet in terraform.of("subnet"):
            ranges = ", ".join(subnet.arguments.get("address_prefixes", ()))
            self._subnets[subnet] = Group(subnet.id, subnet.name, (ranges,))
            for network in terraform.argument(subnet, "virtual_network_name"):
                self._networks[network].groups.append(self._subnets[subnet])

    def _add(self, key: Resource | str, id_: str, title: str, *lines: str) -> None:
        self._networks[key] = Group(id_, title, lines)
        self._picture.groups.append(self._networks[key])

    def subnet_of(self, resource: Resource) -> Group | None:
        """The subnet that the resource stands in, itself or by its network interface."""
        for argument in _SUBNETS:
            for subnet in self._terraform.argument(resource, argument):
                if subnet in self._subnets:
                    return self._subnets[subnet]
            for given in texts(list(nested(resource.arguments, argument))):
                if "/subnets/" in given:
                    return self._there_already(given)
        return None

    def _there_already(self, subnet_id: str) -> Group:
        if subnet_id not in self._subnets:
            network_id, _, name = subnet_id.partition("/subnets/")
            number = len(self._subnets)
            if network_id not in self._networks:
                title = network_id.rpartition("/")[2]
                lines = (f"virtual network, {THERE_ALREADY}",)
                self._add(network_id, f"network_{number}", title, *lines)
            self._subnets[subnet_id] = Group(f"subnet_{number}", name, (THERE_ALREADY,))
            self._networks[network_id].groups.append(self._subnets[subnet_id])
        return self._subnets[subnet_id]

    def add_peerings(self) -> None:
        """A box in the network and one of the other network, for each peering from here."""
        peerings = self._terraform.references("virtual_network_name", "virtual_network_peering")
        for peering, here in peerings:
            remote = text(peering.arguments.get("remote_virtual_network_id"))
            if not remote.startswith("/"):
                continue  # the other half of one that starts here
            gateway = peering.arguments.get("use_remote_gateways") is True
            lines = ("peering", *(("through its gateway",) if gateway else ()))
            node = Node(peering.id, Kind.NETWORK, peering.name, lines)
            title, lines = remote.rpartition("/")[2], (f"virtual network, {THERE_ALREADY}",)
            other = Node(f"{peering.id}_other", Kind.NETWORK, title, lines)
            self._networks[here].nodes.append(node)
            self._picture.nodes.append(other)
            self._picture.arrows.append(Arrow(node.id, other.id, "peering"))


def _fold_empty(network: Group) -> None:
    """A subnet that nothing stands in is a box: a group around nothing cannot be drawn."""
    for subnet in list(network.groups):
        if not subnet.nodes:
            network.groups.remove(subnet)
            lines = ("empty subnet", *subnet.lines)
            network.nodes.append(Node(subnet.id, Kind.NETWORK, subnet.title, lines))
