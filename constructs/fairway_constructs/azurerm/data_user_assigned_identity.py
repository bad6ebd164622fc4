"""Data source azurerm_user_assigned_identity of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataUserAssignedIdentity(DataSource):
    """The data source azurerm_user_assigned_identity."""

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
        name: str,
        resource_group_name: str,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
