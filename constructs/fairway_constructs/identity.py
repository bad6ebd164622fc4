"""The identity of the nodes: who they are to Azure, and the little that they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.user_assigned_identity import UserAssignedIdentity
from fairway_constructs.cdk import Component
from fairway_constructs.identity_role import give_role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A built-in role on one resource, and the reason, which Azure shows beside it.

    `depends_on` is what must be there first, where `scope` is not a reference to it.
    """

    role: str
    scope: str
    reason: str
    depends_on: Sequence[ITerraformDependable] = ()


class Identity(Component):
    """A user-assigned identity and its grants, each under a stable name.

    It stands beside the data that it opens and outlives the clusters that use it: a new
    cluster need not wait for role assignments to spread.

    >>> identity = Identity(stack, "nodes", grants={"outputs": Grant(
    ...     role="Storage Blob Data Contributor", scope=container.id,
    ...     reason="Jobs write their results there")})  # doctest: +SKIP
    >>> identity.id, identity.client_id  # doctest: +SKIP
    """

    def __init__(self, scope: Construct, name: str, *, grants: Mapping[str, Grant]) -> None:
        super().__init__(scope, f"identity-{name}")
        place = self.place
        self.identity = UserAssignedIdentity(
            self,
            name,
            name=place.name("user_assigned_identity", name),
            **place.common,
        )
        principal_id = self.identity.principal_id
        # What needs a grant in order to be made depends on these.
        self.assignments = [
            give_role(
                self,
                f"{name}-{key}",
                on=grant.scope,
                role_name=grant.role,
                principal_id=principal_id,
                why=grant.reason,
                depends_on=grant.depends_on,
            )
            for key, grant in grants.items()
        ]

    @property
    def id(self) -> str:
        """The resource id, for a VM or a pool."""
        return self.identity.id

    @property
    def client_id(self) -> str:
        """The client id, with which a program on a node requests this identity's tokens."""
        return self.identity.client_id

    @property
    def principal_id(self) -> str:
        """The object id, for role assignments."""
        return self.identity.principal_id
