"""A virtual network that is there already: nothing of it is made, and its rules stay."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_subnet import DataSubnet
from fairway_constructs.cdk import Component
from fairway_constructs.network_access import PlacedSubnet
from fairway_constructs.stop_unless import stop_unless
from fairway_core.resource_ids import network_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.private_endpoint import PrivateEndpoints
    from fairway_core.environment import Dns, Existing


class ExistingNetwork(Component):
    """Existing subnets, in place of a `Network`.

    Their ranges are written down beside their ids, as file servers let nodes in by them;
    Terraform stops where Azure says otherwise. With `private_endpoints` the endpoints are
    made in the subnet `endpoints`, and their DNS zones are linked to the network.

    >>> network = ExistingNetwork(stack, spec=spec)  # doctest: +SKIP
    >>> network.subnets["compute"].range  # doctest: +SKIP
    IPv4Network('10.1.0.0/20')
    """

    # Services know the nodes by it, where they have no private endpoint.
    egress_address = ""
    # One that leads here is its owner's.
    bastion = None

    def __init__(
        self,
        scope: Construct,
        id: str = "network",  # noqa: A002
        *,
        spec: Existing,
        private_endpoints: bool = False,
        dns: Dns | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._zones = dns.existing_zones if dns else None
        self._private_endpoints = private_endpoints
        self._virtual_network_id = network_of(spec.subnets.compute.id)
        by_role = spec.subnets.by_role
        for role, subnet in by_role.items():
            _verify(self, role, subnet.id, str(subnet.range))
        self.subnets: Mapping[str, PlacedSubnet] = {
            role: PlacedSubnet(subnet.id, subnet.range) for role, subnet in by_role.items()
        }

    @cached_property
    def endpoints(self) -> PrivateEndpoints | None:
        """Makes private endpoints; None where services are reached without."""
        if not self._private_endpoints:
            return None
        from fairway_constructs.private_endpoint import PrivateEndpoints

        return PrivateEndpoints(
            self,
            subnet_id=self.subnets["endpoints"].id,
            virtual_network_id=self._virtual_network_id,
            existing_zones=self._zones,
        )


def _verify(scope: Component, role: str, subnet_id: str, range_: str) -> None:
    """Lets Terraform stop before it makes anything where the subnet has another range."""
    parts = parts_of("subnet", subnet_id)
    subnet = DataSubnet(
        scope,
        role,
        name=parts["name"],
        virtual_network_name=parts["network"],
        resource_group_name=parts["resource_group"],
    )
    prefixes = subnet.reference("address_prefixes")
    stop_unless(
        scope,
        f"subnet_{role}",
        f'contains({prefixes}, "{range_}")',
        f"{parts['name']} does not have the range {range_}: correct `range:` "
        f"of `{role}` under `network.existing.subnets`",
        value=subnet_id,
        description=f"Where {role} stands",
    )
