"""A container registry without passwords, and closed to the internet if its sku supports that."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from fairway_constructs.azurerm import container_registry as acr
from fairway_constructs.network_access import public_ranges
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import unique_name
from fairway_constructs.service import Service
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.identity import Grantee
    from fairway_core.environment.services import Retention

# For manifests without a tag, which only a Premium registry deletes.
_KEPT_DAYS = 30


class IRegistry(Service):
    """A new or existing container registry.

    >>> registry.grant_pull(h100)
    """

    LINKS: ClassVar = {"": "registry"}
    USUAL_ID = "registry"

    login_server: str

    def grant_pull(self, grantee: Grantee) -> None:
        """Lets the grantee only pull images."""
        self._grant(grantee, "pull_images", "AcrPull", "pull the images of jobs without a password")


class Registry(IRegistry):
    """A registry that accepts Entra ID identities only: no admin user, no anonymous pull.

    A Premium one is reached by private endpoints and from outside only by the public ranges in
    `allowed`, and by `egress_address`, if nodes have no private endpoint. Basic and Standard
    registries have no network rules: any address can reach their sign-in. With `protect` neither
    Terraform nor Azure deletes it; `lock` overrides this for Azure.

    >>> registry = Registry(stack)
    >>> registry.grant_pull(identity)
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "registry",
        *,
        sku: Literal["Basic", "Standard", "Premium"] = "Premium",
        retention_days: Retention | None = None,
        allowed: Sequence[IPv4Network | str] = (),
        egress_address: str = "",
        lock: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        premium = sku == "Premium"
        ranges = public_ranges(allowed, egress_address)
        rules = acr.NetworkRuleSet(
            default_action="Deny",
            ip_rule=[acr.NetworkRuleSetIpRule(action="Allow", ip_range=each) for each in ranges],
        )
        self.registry = acr.ContainerRegistry(
            self,
            "registry",
            name=unique_name(self, "container_registry"),
            **azure.common,
            sku=sku,
            admin_enabled=False,
            anonymous_pull_enabled=False,
            public_network_access_enabled=bool(ranges) or not premium,
            network_rule_set=[rules] if premium and ranges else None,
            retention_policy_in_days=retention_days or (_KEPT_DAYS if premium else None),
            zone_redundancy_enabled=True if premium and azure.zone else None,
            lifecycle=lifecycle_of(self),
        )
        self.id = self.registry.id
        self.login_server = self.registry.login_server
        delete_lock(self, id="registry", on=self.registry, lock=lock)

    @classmethod
    def from_id(
        cls, scope: Construct, id: str, registry_id: str, *, login_server: str = ""
    ) -> IRegistry:
        """Returns an existing registry: nothing is created, and its network rules stay.

        Its `login_server` is derived from its name by default.
        """
        found = IRegistry(scope, id)
        found.id = registry_id
        name = parts_of("container registry", registry_id)["name"].lower()
        found.login_server = login_server or f"{name}.azurecr.io"
        return found
