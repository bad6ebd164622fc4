"""A container registry without passwords, and closed to the internet where the sku can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.container_registry import (
    ContainerRegistry,
    NetworkRuleSet,
    NetworkRuleSetIpRule,
)
from fairway_constructs.cdk import Component
from fairway_constructs.identity import Grant
from fairway_constructs.network_access import public_ranges
from fairway_constructs.protection import kept, lock
from fairway_constructs.unique_name import unique_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_core.environment import Registry as RegistrySpec


class Registry(Component):
    """A registry that takes Entra ID identities only: no admin user, no anonymous pull.

    A Premium one is reached by private endpoints and from outside only by the public ones of
    the ranges `allowed`, and by `egress_address`, where nodes have no private endpoint. Basic
    and Standard registries have no network rules: every address reaches their sign-in.

    >>> registry = Registry(stack, spec=RegistrySpec())  # doctest: +SKIP
    >>> registry.login_server, registry.pull_grant  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "registry",  # noqa: A002
        *,
        spec: RegistrySpec,
        allowed: Sequence[IPv4Network | str] = (),
        egress_address: str = "",
        protect: bool = True,
    ) -> None:
        super().__init__(scope, id)
        place = self.place
        premium = spec.sku == "Premium"
        ranges = public_ranges(allowed) + ([f"{egress_address}/32"] if egress_address else [])
        self.registry = ContainerRegistry(
            self,
            "registry",
            name=unique_name(self, "container_registry"),
            **place.common,
            sku=spec.sku,
            admin_enabled=False,
            anonymous_pull_enabled=False,
            public_network_access_enabled=bool(ranges) or not premium,
            network_rule_set=[_rules(ranges)] if premium and ranges else None,
            retention_policy_in_days=spec.retention_days,
            zone_redundancy_enabled=True if premium and place.zone else None,
            lifecycle=kept(protect),
        )
        self.id = self.registry.id
        self.login_server = self.registry.login_server
        if protect:
            lock(self, id="registry", on=self.registry)

    @property
    def pull_grant(self) -> Grant:
        """A grant to pull images, and nothing else."""
        return _pull_grant(self.id)


@dataclass(frozen=True)
class ExistingRegistry:
    """A registry that is there already: nothing of it is made, and its rules stay."""

    id: str
    login_server: str

    @property
    def pull_grant(self) -> Grant:
        """See `Registry.pull_grant`."""
        return _pull_grant(self.id)


def _pull_grant(registry_id: str) -> Grant:
    return Grant(
        role="AcrPull",
        scope=registry_id,
        reason="Nodes pull the images of jobs without a password",
    )


def _rules(ranges: Sequence[str]) -> NetworkRuleSet:
    return NetworkRuleSet(
        default_action="Deny",
        ip_rule=[NetworkRuleSetIpRule(action="Allow", ip_range=each) for each in ranges],
    )
