"""Resource azurerm_marketplace_agreement of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class MarketplaceAgreement(Resource):
    """The resource azurerm_marketplace_agreement."""

    TYPE = "azurerm_marketplace_agreement"

    id = StringAttribute()
    license_text_link = StringAttribute()
    offer = StringAttribute()
    plan = StringAttribute()
    privacy_policy_link = StringAttribute()
    publisher = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        offer: str,
        plan: str,
        publisher: str,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "offer": offer,
                "plan": plan,
                "publisher": publisher,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
