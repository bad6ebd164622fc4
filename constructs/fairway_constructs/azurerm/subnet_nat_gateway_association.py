"""Resource azurerm_subnet_nat_gateway_association of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SubnetNatGatewayAssociation(Resource):
    """The resource azurerm_subnet_nat_gateway_association."""

    TYPE = "azurerm_subnet_nat_gateway_association"

    id = StringAttribute()
    nat_gateway_id = StringAttribute()
    subnet_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        nat_gateway_id: str,
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
                "nat_gateway_id": nat_gateway_id,
                "subnet_id": subnet_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
