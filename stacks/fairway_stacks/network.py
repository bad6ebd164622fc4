"""The stack `NAME-network`: what everything else stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.network import Network
from fairway_stacks.stack import EnvironmentStack

if TYPE_CHECKING:
    from fairway_core.environment import Environment
    from fairway_stacks.stack import Project


class NetworkStack(EnvironmentStack):
    """The virtual network with its subnets and rules."""

    def __init__(self, project: Project, environment: Environment) -> None:
        super().__init__(project, environment, "network")
        self.network = Network(
            self,
            place=self.place,
            address_space=environment.network.address_space,
            allowed=environment.access.allowed,
            private_endpoints=environment.network.private_endpoints,
        )
