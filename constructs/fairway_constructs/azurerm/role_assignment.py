"""Resource azurerm_role_assignment of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class RoleAssignment(Resource):
    """The resource azurerm_role_assignment."""

    TYPE = "azurerm_role_assignment"

    condition = StringAttribute()
    condition_version = StringAttribute()
    delegated_managed_identity_resource_id = StringAttribute()
    description = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    principal_id = StringAttribute()
    principal_type = StringAttribute()
    role_definition_id = StringAttribute()
    role_definition_name = StringAttribute()
    scope_ = StringAttribute("scope")
    skip_service_principal_aad_check = BooleanAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        principal_id: str,
        scope_: str,
        condition: str | None = None,
        condition_version: str | None = None,
        delegated_managed_identity_resource_id: str | None = None,
        description: str | None = None,
        name: str | None = None,
        principal_type: str | None = None,
        role_definition_id: str | None = None,
        role_definition_name: str | None = None,
        skip_service_principal_aad_check: bool | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "principal_id": principal_id,
                "scope": scope_,
                "condition": condition,
                "condition_version": condition_version,
                "delegated_managed_identity_resource_id": delegated_managed_identity_resource_id,
                "description": description,
                "name": name,
                "principal_type": principal_type,
                "role_definition_id": role_definition_id,
                "role_definition_name": role_definition_name,
                "skip_service_principal_aad_check": skip_service_principal_aad_check,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
