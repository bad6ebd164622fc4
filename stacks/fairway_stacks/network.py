"""The stack `NAME-network`: the network that contains everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_core.environment.filesystems import optional_roles, speaks_nfs_3
from fairway_stacks.people import accounts_of
from fairway_stacks.stack import RoleStack

if TYPE_CHECKING:
    from fairway_constructs.network import INetwork
    from fairway_core.environment import Environment, Existing
    from fairway_stacks.stack import Project


class NetworkStack(RoleStack):
    """The virtual network with its subnets, rules, peerings and bastion, or an existing one."""

    def __init__(self, project: Project, environment: Environment) -> None:
        super().__init__(project, environment, "network")
        existing = environment.network.existing
        self.network = (
            self._existing(environment, existing) if existing else self._made(environment)
        )
        self.gateway = self._gateway(environment)

    def _gateway(self, environment: Environment) -> az.Gateway | None:
        """Creates the VM through which storage and Batch are reached; it outlives the clusters."""
        size = environment.access.gateway_size
        if size is None:
            return None
        subnets = self.network.subnets
        return az.Gateway(
            self,
            size=size,
            subnet=subnets["management" if "management" in subnets else "compute"],
            accounts=accounts_of(environment),
        )

    def _existing(self, environment: Environment, spec: Existing) -> INetwork:
        return az.Network.from_subnets(
            self,
            "network",
            {role: (each.id, each.range) for role, each in spec.subnets.by_role.items()},
            private_endpoints=environment.network.private_endpoints,
            dns=environment.network.dns,
        )

    def _made(self, environment: Environment) -> INetwork:
        spec, access = environment.network, environment.access
        network = az.Network(
            self,
            address_space=spec.address_space,
            allowed=access.allowed,
            private_endpoints=spec.private_endpoints,
            egress=spec.egress,
            service_endpoints=spec.service_endpoints,
            bastion=access.bastion,
            admins=access.admins,
            filesystems=optional_roles(environment.filesystems),
            nfs_3=speaks_nfs_3(environment.filesystems),
            dns=spec.dns,
            pods=environment.orchestrator.pod_range if environment.orchestrator else None,
            web=environment.web.allowed if environment.web else (),
        )
        if spec.peerings:
            self._peer(environment, network)
        if network.bastion:
            az.Output(
                self,
                "bastion_host",
                value={"id": network.bastion.id, "name": network.bastion.host.name},
                description="Bastion host for `az network bastion ssh`",
                static_id=True,
            )
        return network

    def _peer(self, environment: Environment, network: az.Network) -> None:
        spec = environment.network
        for name, peering in spec.peerings.items():
            az.Peering(
                self,
                name,
                network=network,
                remote_id=peering.network,
                both_ways=peering.both_ways,
                gateway=peering.gateway,
                forwarded=not isinstance(spec.egress, str),
            )
