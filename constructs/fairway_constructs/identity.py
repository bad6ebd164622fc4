"""Identities, their roles, and custom roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from fairway_constructs.azurerm.data_user_assigned_identity import DataUserAssignedIdentity
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.role_definition import Permissions, RoleDefinition
from fairway_constructs.azurerm.user_assigned_identity import UserAssignedIdentity
from fairway_constructs.cdk import Component
from fairway_constructs.scope import subscription_of, unique_name
from fairway_core.findings import UserError
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_core.resource_ids import ObjectId


def assign_role(
    scope: Construct,
    id: str,
    *,
    on: str,
    principal_id: str,
    why: str,
    new: bool = True,
    principal_type: str = "ServicePrincipal",
    role_id: str | None = None,
    role_name: str | None = None,
    depends_on: Sequence[ITerraformDependable] = (),
) -> RoleAssignment:
    """Grants a principal a role on a resource: a built-in one by `role_name`, another by `role_id`.

    `new` is for principals that the environment creates, not for an existing service principal.
    """
    return RoleAssignment(
        scope,
        id,
        scope_=on,
        role_definition_id=role_id,
        role_definition_name=role_name,
        principal_id=principal_id,
        principal_type=principal_type,
        # The directory may not know the new identity yet; Azure then retries.
        skip_service_principal_aad_check=True if new else None,
        description=why,
        depends_on=depends_on,
    )


@runtime_checkable
class Grantee(Protocol):
    """A holder of roles: an `Identity`, `People`, or a construct with an identity (`Cluster`).

    >>> storage.grant_read_write(h100)
    """

    @property
    def identity(self) -> Principal:
        """The object by which Azure knows the holder."""


class Principal(Component):
    """An object of Entra ID and its roles, each under a stable name.

    `called` is its name in the reasons of roles, which Azure shows.

    >>> registry.grant_pull(identity)
    """

    called = "Nodes"
    _type = "ServicePrincipal"

    def __init__(self, scope: Construct, id: str, name: str) -> None:
        super().__init__(scope, id)
        self._name = name
        self._granted: dict[str, RoleAssignment] = {}

    @property
    def assignments(self) -> list[RoleAssignment]:
        """The roles so far; resources that need one to be created depend on them."""
        return [*self._granted.values()]

    def grant(
        self,
        key: str,
        role: str,
        *,
        on: str,
        reason: str,
        depends_on: Sequence[ITerraformDependable] = (),
    ) -> RoleAssignment:
        """Grants a built-in role on a resource; Azure shows the reason beside it.

        `key` names the assignment among those of the identity; a second call for one role on one
        resource changes nothing. `depends_on` are resources that must exist first, if `on` is not a
        reference to them.

        Raises UserError if the key names another role, or one on another resource.
        """
        if made := self._granted.get(key):
            had, where = made.given("role_definition_name"), made.given("scope")
            if (had, where) == (role, on):
                return made
            message = f"`{key}` of `{self._name}` is the role `{had}` already, and not `{role}` too"
            hint = "leave out one of the two grants"
            if where != on:
                message = f"`{key}` of `{self._name}` is a role on another resource already"
                hint = "give one of the two resources another id, or the grant another key"
            raise UserError.of("role-taken", message, hint)
        made = self._granted[key] = assign_role(
            self,
            f"{self._name}-{key}",
            on=on,
            role_name=role,
            principal_id=self.principal_id,
            why=reason,
            new=self._type == "ServicePrincipal",
            principal_type=self._type,
            depends_on=depends_on,
        )
        return made

    @property
    def identity(self) -> Principal:
        """The principal itself, for arguments that take something with an identity."""
        return self

    @property
    def principal_id(self) -> str:
        """The object id, for role assignments."""
        raise NotImplementedError


class People(Principal):
    """A group of Entra ID, or one user, to whom `grant_…` methods give roles.

    >>> team = People(stack, "team",
    ...               object_id="00000000-0000-0000-0000-000000000000")
    >>> storage.grant_read_write(team)
    """

    called = "People"

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        object_id: ObjectId,
        principal_type: Literal["Group", "User"] = "Group",
    ) -> None:
        super().__init__(scope, f"people-{name}", name)
        self._object_id, self._type = object_id, principal_type

    @property
    def principal_id(self) -> str:
        """The object id, for role assignments."""
        return self._object_id


class IIdentity(Principal):
    """A new or existing user-assigned identity and its roles, each under a stable name.

    >>> storage.grant_read(identity)
    """

    resource: UserAssignedIdentity | DataUserAssignedIdentity

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, f"identity-{name}", name)

    @property
    def id(self) -> str:
        """The resource id, for a VM or a pool."""
        return self.resource.id

    @property
    def client_id(self) -> str:
        """The client id, with which a program on a node requests this identity's tokens."""
        return self.resource.client_id

    @property
    def principal_id(self) -> str:
        """The object id, for role assignments."""
        return self.resource.principal_id


class Identity(IIdentity):
    """A user-assigned identity and its roles, each under a stable name.

    It belongs beside the data that it can access and outlives the clusters that use it: a new
    cluster need not wait for role assignments to propagate. Resources grant it roles, by methods
    such as `Storage.grant_read_write`; for those without such a method there is `grant`.

    >>> identity = Identity(stack, "nodes")
    >>> storage.grant_read_write(identity)
    >>> identity.id, identity.client_id
    """

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        azure = self.azure
        self.resource = UserAssignedIdentity(
            self, name, name=azure.name("user_assigned_identity", name), **azure.common
        )

    @classmethod
    def from_id(cls, scope: Construct, name: str, identity_id: str) -> IIdentity:
        """Returns an existing identity of the subscription; only roles granted here are created."""
        found = IIdentity(scope, name)
        parts = parts_of("managed identity", identity_id)
        found.resource = DataUserAssignedIdentity(
            found, name, name=parts["name"], resource_group_name=parts["resource_group"]
        )
        return found


def custom_role(
    scope: Construct, key: str, *parts: str, description: str, actions: Sequence[str]
) -> str:
    """Returns the id of a new role, whose name has these parts. A role can only be created for the
    subscription; it allows nothing before it is assigned to somebody on a resource."""
    subscription = subscription_of(scope)
    return RoleDefinition(
        scope,
        key,
        name=unique_name(scope, "role_definition", *parts),
        scope_=subscription,
        description=description,
        permissions=[Permissions(actions=list(actions))],
        assignable_scopes=[subscription],
    ).role_definition_resource_id
