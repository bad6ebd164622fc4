"""Resource azurerm_role_definition of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import ListAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Permissions(Block):
    """The block `permissions`."""

    actions: Sequence[str] | None = None
    data_actions: Sequence[str] | None = None
    not_actions: Sequence[str] | None = None
    not_data_actions: Sequence[str] | None = None


class RoleDefinition(Resource):
    """The resource azurerm_role_definition."""

    TYPE = "azurerm_role_definition"

    assignable_scopes = ListAttribute()
    description = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    role_definition_id = StringAttribute()
    role_definition_resource_id = StringAttribute()
    scope_ = StringAttribute("scope")

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        scope_: str,
        assignable_scopes: Sequence[str] | None = None,
        description: str | None = None,
        role_definition_id: str | None = None,
        permissions: Sequence[Permissions] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "scope": scope_,
                "assignable_scopes": assignable_scopes,
                "description": description,
                "role_definition_id": role_definition_id,
                "permissions": permissions,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
