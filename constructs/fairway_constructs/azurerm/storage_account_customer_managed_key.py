"""Resource azurerm_storage_account_customer_managed_key of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class StorageAccountCustomerManagedKey(Resource):
    """The resource azurerm_storage_account_customer_managed_key."""

    TYPE = "azurerm_storage_account_customer_managed_key"

    federated_identity_client_id = StringAttribute()
    id = StringAttribute()
    key_vault_key_id = StringAttribute()
    storage_account_id = StringAttribute()
    user_assigned_identity_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key_vault_key_id: str,
        storage_account_id: str,
        federated_identity_client_id: str | None = None,
        user_assigned_identity_id: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "key_vault_key_id": key_vault_key_id,
                "storage_account_id": storage_account_id,
                "federated_identity_client_id": federated_identity_client_id,
                "user_assigned_identity_id": user_assigned_identity_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
