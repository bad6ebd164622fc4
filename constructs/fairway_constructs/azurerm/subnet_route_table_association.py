"""Resource azurerm_subnet_route_table_association of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SubnetRouteTableAssociation(Resource):
    """The resource azurerm_subnet_route_table_association."""

    TYPE = "azurerm_subnet_route_table_association"

    id = StringAttribute()
    route_table_id = StringAttribute()
    subnet_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        route_table_id: str,
        subnet_id: str,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "route_table_id": route_table_id,
                "subnet_id": subnet_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
