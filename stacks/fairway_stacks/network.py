"""The stack `NAME-network`: the network that contains everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_core.environment.filesystems.rules import dedicated_subnets, uses_nfs3
from fairway_stacks.boot_data import accounts_of
from fairway_stacks.stack import RoleStack

if TYPE_CHECKING:
    from fairway_constructs.network import INetwork
    from fairway_core.environment import Environment
    from fairway_stacks.stack import Project


class NetworkStack(RoleStack):
    """The virtual network with its subnets, rules, peerings and bastion, or an existing one."""

    def __init__(self, project: Project, environment: Environment) -> None:
        super().__init__(project, environment, "network")
        spec = environment.network
        self.network: INetwork
        if spec.existing:
            subnets = spec.existing.subnets.by_role.items()
            self.network = az.Network.from_subnets(
                self,
                "network",
                {role: (each.id, each.range) for role, each in subnets},
                private_endpoints=spec.private_endpoints,
                dns=spec.dns,
            )
        else:
            self.network = self._made(environment)
        # Storage and Batch are reached through it; it outlives the clusters.
        self.gateway = None
        if environment.access.gateway_size is not None:
            role = "management" if "management" in self.network.subnets else "compute"
            self.gateway = az.Gateway(
                self,
                size=environment.access.gateway_size,
                subnet=self.network.subnets[role],
                accounts=accounts_of(environment),
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
            filesystems=dedicated_subnets(environment.filesystems),
            nfs_3=uses_nfs3(environment.filesystems),
            dns=spec.dns,
            pods=environment.aks.pod_range if environment.aks else None,
            web=environment.web.allowed if environment.web else (),
        )
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
        if network.bastion:
            self.publish(
                "bastion_host",
                {"id": network.bastion.id, "name": network.bastion.host.name},
                "Bastion host for `az network bastion ssh`",
            )
        return network
