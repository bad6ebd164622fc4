"""Resource azurerm_federated_identity_credential of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import ListAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class FederatedIdentityCredential(Resource):
    """The resource azurerm_federated_identity_credential."""

    TYPE = "azurerm_federated_identity_credential"

    audience = ListAttribute()
    id = StringAttribute()
    issuer = StringAttribute()
    name = StringAttribute()
    subject = StringAttribute()
    user_assigned_identity_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        audience: Sequence[str],
        issuer: str,
        name: str,
        subject: str,
        user_assigned_identity_id: str,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "audience": audience,
                "issuer": issuer,
                "name": name,
                "subject": subject,
                "user_assigned_identity_id": user_assigned_identity_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
