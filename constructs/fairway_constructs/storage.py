"""Blob storage: an account without keys, closed to the internet, and its private containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.storage_account import (
    BlobProperties,
    BlobPropertiesContainerDeleteRetentionPolicy,
    BlobPropertiesDeleteRetentionPolicy,
    CustomerManagedKey,
    Identity,
    NetworkRules,
    SasPolicy,
    StorageAccount,
)
from fairway_constructs.azurerm.storage_container import StorageContainer
from fairway_constructs.cdk import Component
from fairway_constructs.network_access import public_addresses
from fairway_constructs.protection import kept, lock
from fairway_constructs.storage_lifecycle import storage_lifecycle
from fairway_constructs.unique_name import unique_name
from fairway_core.catalog.private_links import blob_host
from fairway_core.catalog.tables import look_up
from fairway_core.naming import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.encryption import CustomerKey
    from fairway_core.environment.storage import Replication

# Long enough to notice a deletion after a holiday.
_KEPT_DAYS = 14


class Storage(Component):
    """A storage account that only Entra ID identities can use, unless `account_keys` is set.

    It is reached by private endpoints, from `subnet_ids` and from the public ones of the
    ranges `allowed`; with none of them it has no public side at all, and only with `public`
    every address reaches it. Deleted and overwritten blobs can be brought back for two weeks;
    in the containers of `expire_days` what nobody changed for so long is deleted. `account`
    is the name to use; otherwise Terraform makes one that nobody else has, see
    `unique_suffix`. With `protect` neither Terraform nor Azure deletes the account.

    Raises UserError for a name that Azure does not take, and for `expire_days` of a container that
    is not made.

    >>> storage = Storage(stack, containers=["datasets"],
    ...                   subnet_ids=[network.subnets["compute"].id])  # doctest: +SKIP
    >>> storage.account_url, storage.containers["datasets"].id  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "storage",  # noqa: A002
        *,
        containers: Sequence[str],
        subnet_ids: Sequence[str] = (),
        allowed: Sequence[IPv4Network | str] = (),
        public: bool = False,
        replication: Replication | None = None,
        account: str | None = None,
        expire_days: Mapping[str, int] | None = None,
        customer_key: CustomerKey | None = None,
        account_keys: bool = False,
        protect: bool = True,
    ) -> None:
        for container in containers:
            check_name("storage_container", container)
        for container in expire_days or ():
            look_up(container, {name: name for name in containers}, "container")
        super().__init__(scope, id)
        place = self.place
        addresses = public_addresses(allowed)
        self.account = StorageAccount(
            self,
            "storage",
            name=_account_name(self, account),
            **place.common,
            account_tier="Standard",
            account_replication_type=replication or ("ZRS" if place.zone else "LRS"),
            shared_access_key_enabled=account_keys,
            sas_policy=_sas_policy() if account_keys else None,
            default_to_oauth_authentication=True,
            local_user_enabled=False,
            allow_nested_items_to_be_public=False,
            cross_tenant_replication_enabled=False,
            https_traffic_only_enabled=True,
            min_tls_version="TLS1_2",
            infrastructure_encryption_enabled=True,
            public_network_access_enabled=bool(public or subnet_ids or addresses),
            network_rules=NetworkRules(
                default_action="Allow" if public else "Deny",
                bypass=["AzureServices"],
                virtual_network_subnet_ids=list(subnet_ids) or None,
                ip_rules=addresses or None,
            ),
            identity=_identity(customer_key),
            customer_managed_key=_customer_managed_key(customer_key),
            blob_properties=_what_is_kept(),
            lifecycle=kept(protect),
            depends_on=customer_key.ready if customer_key else (),
        )
        self.id = account_id = self.account.id
        self.account_url = self.account.primary_blob_endpoint
        self.host = blob_host(self.account.name)
        self.containers: Mapping[str, StorageContainer] = {
            name: self._container(name, account_id, protect) for name in containers
        }
        storage_lifecycle(
            self, account_id=account_id, expire_days=expire_days or {}, version_days=_KEPT_DAYS
        )
        if protect:
            lock(self, id="storage", on=self.account)

    def _container(self, name: str, account_id: str, protect: bool) -> StorageContainer:
        return StorageContainer(
            self,
            f"container-{name}",
            name=name,
            storage_account_id=account_id,
            container_access_type="private",
            lifecycle=kept(protect),
        )


def _sas_policy() -> SasPolicy:
    """Tokens that keys sign cannot be taken back: longer ones are at least logged."""
    return SasPolicy(expiration_period="01.00:00:00", expiration_action="Log")


def _what_is_kept() -> BlobProperties:
    """What was deleted or overwritten can be brought back for a while."""
    return BlobProperties(
        versioning_enabled=True,
        delete_retention_policy=BlobPropertiesDeleteRetentionPolicy(days=_KEPT_DAYS),
        container_delete_retention_policy=BlobPropertiesContainerDeleteRetentionPolicy(
            days=_KEPT_DAYS
        ),
    )


def _account_name(scope: Construct, account: str | None) -> str:
    if account is not None:
        check_name("storage_account", account)
        return account
    return unique_name(scope, "storage_account")


def _identity(key: CustomerKey | None) -> Identity | None:
    return Identity(type="UserAssigned", identity_ids=[key.identity_id]) if key else None


def _customer_managed_key(key: CustomerKey | None) -> CustomerManagedKey | None:
    if key is None:
        return None
    return CustomerManagedKey(key_vault_key_id=key.url, user_assigned_identity_id=key.identity_id)
