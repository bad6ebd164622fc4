"""The Batch account: jobs and their history, without keys, and its access to a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import batch_account as batch
from fairway_constructs.identity import assign_role
from fairway_constructs.network_access import public_addresses
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import subscription_of, unique_name
from fairway_constructs.service import Diagnostics, Service
from fairway_constructs.vault import key_vault
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.identity import Grantee, IIdentity
    from fairway_constructs.storage import IStorage
    from fairway_core.resource_ids import ObjectId


_KEPT_DAYS = 7


class BatchUserSubscription(Service):
    """The role assignments and the vault that a Batch account in mode UserSubscription needs.

    `service_principal` is the object id of the application "Microsoft Azure Batch" in the
    directory. Batch keeps secrets of its nodes in the vault, whose `id` is this one's; nobody else
    uses it, and only Azure's own services can reach it. In a stack with `protect` neither Terraform
    nor Azure deletes it.

    >>> own = BatchUserSubscription(stack,
    ...                             service_principal="00000000-0000-0000-0000-000000000000")
    >>> BatchAccount(stack, user_subscription=own)
    """

    def __init__(
        self, scope: Construct, id: str = "batch-subscription", *, service_principal: ObjectId
    ) -> None:
        super().__init__(scope, id)
        vault = key_vault(
            self,
            "batch-vault",
            kind="batch_key_vault",
            kept_days=_KEPT_DAYS,
            bypass="AzureServices",
            for_machines=True,
        )
        delete_lock(self, id="batch-vault", on=vault)
        self.id = vault.id
        self.vault_url = vault.vault_uri
        give = partial(assign_role, self, principal_id=service_principal, new=False)
        self.ready = [
            give(
                "batch-orchestrates",
                on=subscription_of(self),
                role_name="Azure Batch Service Orchestration Role",
                why="Batch makes and deletes the VMs of its pools in this subscription",
            ),
            give(
                "batch-keeps-secrets",
                on=self.id,
                role_name="Key Vault Secrets Officer",
                why="Batch keeps secrets of its nodes in this vault, which is its own",
            ),
        ]


Mode = Literal["BatchService", "UserSubscription"]


@checked
@dataclass(frozen=True, kw_only=True)
class AutoStorage:
    """The storage account that Batch itself uses, for example for application packages.

    Both sides access it by an identity, and no key is stored anywhere: Batch by `account_identity`
    and the nodes by `node_identity`, which may read and write blobs there.

    >>> AutoStorage(storage=storage, account_identity=identity, node_identity=identity)
    """

    storage: IStorage
    account_identity: IIdentity
    node_identity: IIdentity


class IBatchAccount(Service):
    """A new or existing Batch account; pools are created in its `resource_group`, by its `name`.

    >>> account.grant_submit(identity)
    """

    LINKS: ClassVar = {"": "batch", "-nodes": "batch_node_management"}
    USUAL_ID = "batch"
    DIAGNOSTICS = Diagnostics(metrics=True)

    mode: Mode
    name: str
    endpoint: str
    resource_group: str

    def grant_submit(self, grantee: Grantee) -> None:
        """Lets the grantee submit and manage jobs on all pools of the account."""
        self._grant(grantee, "submit_jobs", "Azure Batch Data Contributor", "submit jobs")

    def grant_read(self, grantee: Grantee) -> None:
        """Lets the grantee see pools and jobs, without changing them."""
        self._grant(grantee, "see_jobs", "Azure Batch Account Reader", "see pools and jobs")


class BatchAccount(IBatchAccount):
    """A Batch account that only Entra ID identities can use: shared keys do not work.

    Jobs are submitted from the public ranges in `allowed`, and through private endpoints. Nodes
    report to the account from `egress_address`, the public address of their outbound traffic, or
    through a private endpoint too. If no outside range is allowed, the account has no public access
    at all.

    With `user_subscription` Batch creates the VMs in the subscription, against its quota, and
    otherwise in one of Microsoft's against the account's. In a stack with `protect` Terraform does
    not destroy it: its quota was granted to the account, and would be lost with it. It carries no
    lock, as a lock would protect its pools too.

    >>> account = BatchAccount(stack,
    ...                        allowed=[IPv4Network("203.0.113.0/24")])
    >>> account.endpoint
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "batch",
        *,
        allowed: Sequence[IPv4Network | str] = (),
        egress_address: str = "",
        user_subscription: BatchUserSubscription | None = None,
        auto_storage: AutoStorage | None = None,
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        self.mode = "UserSubscription" if user_subscription else "BatchService"
        profile = _network_profile(public_addresses(allowed), egress_address)
        self.account = batch.BatchAccount(
            self,
            "batch",
            name=unique_name(self, "batch_account"),
            **azure.common,
            pool_allocation_mode=self.mode,
            key_vault_reference=(
                batch.KeyVaultReference(id=user_subscription.id, url=user_subscription.vault_url)
                if user_subscription
                else None
            ),
            allowed_authentication_modes=["AAD"],
            public_network_access_enabled=profile is not None,
            network_profile=profile,
            **_storage(auto_storage),
            lifecycle=lifecycle_of(self),
            depends_on=user_subscription.ready if user_subscription else (),
        )
        self.id = self.account.id
        self.name = self.account.name
        # The provider returns only the host.
        self.endpoint = f"https://{self.account.account_endpoint}"
        self.resource_group = azure.resource_group

    @classmethod
    def from_id(
        cls,
        scope: Construct,
        id: str,
        account_id: str,
        *,
        location: str = "",
        mode: Mode = "BatchService",
    ) -> IBatchAccount:
        """Returns an existing account in `location`, by default the stack's region, for pools.

        Nothing is created, and its network rules stay.
        """
        found = IBatchAccount(scope, id)
        parts = parts_of("Batch account", account_id)
        found.id, found.name, found.mode = account_id, parts["name"], mode
        found.resource_group = parts["resource_group"]
        host = f"{found.name}.{location or found.azure.location}.batch.azure.com"
        found.endpoint = f"https://{host}".replace(" ", "").lower()
        return found


def _network_profile(addresses: Sequence[str], egress_address: str) -> batch.NetworkProfile | None:
    """Returns the rules of the account's public access, or None if it has none."""
    if not addresses and not egress_address:
        return None
    nodes = [egress_address] if egress_address else []
    return batch.NetworkProfile(
        account_access=batch.NetworkProfileAccountAccess(
            default_action="Deny",
            ip_rule=[batch.NetworkProfileAccountAccessIpRule(ip_range=one) for one in addresses]
            or None,
        ),
        node_management_access=batch.NetworkProfileNodeManagementAccess(
            default_action="Deny",
            ip_rule=[batch.NetworkProfileNodeManagementAccessIpRule(ip_range=one) for one in nodes]
            or None,
        ),
    )


def _storage(auto: AutoStorage | None) -> dict[str, Any]:
    if auto is None:
        return {}
    return {
        "identity": batch.Identity(type="UserAssigned", identity_ids=[auto.account_identity.id]),
        "storage_account_id": auto.storage.id,
        "storage_account_authentication_mode": "BatchAccountManagedIdentity",
        "storage_account_node_identity": auto.node_identity.id,
    }
