"""Resource azurerm_subnet_network_security_group_association of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class SubnetNetworkSecurityGroupAssociation(Resource):
    """The resource azurerm_subnet_network_security_group_association."""

    TYPE = "azurerm_subnet_network_security_group_association"

    id = StringAttribute()
    network_security_group_id = StringAttribute()
    subnet_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        network_security_group_id: str,
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
                "network_security_group_id": network_security_group_id,
                "subnet_id": subnet_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
