"""What Batch needs to make VMs in a subscription of ours: two roles, and a vault of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.key_vault import KeyVault, NetworkAcls
from fairway_constructs.cdk import Component
from fairway_constructs.identity_role import give_role
from fairway_constructs.protection import kept, lock
from fairway_constructs.unique_name import client_config, unique_name

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement

_KEPT_DAYS = 7


class UserSubscription(Component):
    """The roles and the vault that a Batch account in mode UserSubscription needs first.

    `service_principal` is the object id of the application "Microsoft Azure Batch" in the
    directory. Batch keeps secrets of its nodes in the vault; nobody else uses it, and it can
    be reached by Azure's own services alone. With `protect` neither Terraform nor Azure
    deletes it.

    >>> own = UserSubscription(stack, place=place,
    ...                        service_principal="00000000-0000-…")  # doctest: +SKIP
    >>> BatchAccount(stack, place=place, user_subscription=own)  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "batch-subscription",  # noqa: A002
        *,
        place: Placement,
        service_principal: str,
        protect: bool = True,
    ) -> None:
        super().__init__(scope, id)
        client = client_config(self)
        vault = _vault(self, place, client.tenant_id, protect)
        if protect:
            lock(self, place=place, id="batch-vault", resource_id=vault.id)
        self.vault_id = vault.id
        self.vault_url = vault.vault_uri
        give = partial(give_role, self, principal_id=service_principal, new=False)
        self.ready = [
            give(
                "batch-orchestrates",
                on=f"/subscriptions/{client.subscription_id}",
                role_name="Azure Batch Service Orchestration Role",
                why="Batch makes and deletes the VMs of its pools in this subscription",
            ),
            give(
                "batch-keeps-secrets",
                on=self.vault_id,
                role_name="Key Vault Secrets Officer",
                why="Batch keeps secrets of its nodes in this vault, which is its own",
            ),
        ]


def _vault(scope: Construct, place: Placement, tenant_id: str, protect: bool) -> KeyVault:
    return KeyVault(
        scope,
        "batch-vault",
        name=unique_name(scope, "batch_key_vault", place),
        resource_group_name=place.resource_group,
        location=place.location,
        tenant_id=tenant_id,
        sku_name="standard",
        rbac_authorization_enabled=True,
        purge_protection_enabled=True,
        soft_delete_retention_days=_KEPT_DAYS,
        # Batch puts these secrets on the VMs that it makes.
        enabled_for_deployment=True,
        enabled_for_template_deployment=True,
        public_network_access_enabled=True,
        network_acls=NetworkAcls(default_action="Deny", bypass="AzureServices"),
        tags=place.tags,
        lifecycle=kept(protect),
    )
