"""Resource azurerm_user_assigned_identity of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class UserAssignedIdentity(Resource):
    """The resource azurerm_user_assigned_identity."""

    TYPE = "azurerm_user_assigned_identity"

    client_id = StringAttribute()
    id = StringAttribute()
    isolation_scope = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    principal_id = StringAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()
    tenant_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        isolation_scope: str | None = None,
        tags: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "isolation_scope": isolation_scope,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
