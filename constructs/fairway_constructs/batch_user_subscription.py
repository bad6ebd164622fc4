"""What Batch needs to make VMs in a subscription of ours: two roles, and a vault of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.identity_role import give_role
from fairway_constructs.key_vault import key_vault
from fairway_constructs.protection import delete_lock
from fairway_constructs.unique_name import client_config

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct

_KEPT_DAYS = 7


class BatchUserSubscription(Component):
    """The role assignments and the vault that a Batch account in mode UserSubscription needs.

    `service_principal` is the object id of the application "Microsoft Azure Batch" in the
    directory. Batch keeps secrets of its nodes in the vault; nobody else uses it, and it can be
    reached by Azure's own services alone. In a stack with `protect` neither Terraform nor Azure
    deletes it.

    >>> own = BatchUserSubscription(stack,
    ...                             service_principal="00000000-0000-…")  # doctest: +SKIP
    >>> BatchAccount(stack, user_subscription=own)  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "batch-subscription",  # noqa: A002
        *,
        service_principal: str,
    ) -> None:
        super().__init__(scope, id)
        client = client_config(self)
        vault = key_vault(
            self,
            "batch-vault",
            kind="batch_key_vault",
            kept_days=_KEPT_DAYS,
            bypass="AzureServices",
            for_machines=True,
        )
        delete_lock(self, id="batch-vault", on=vault)
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
