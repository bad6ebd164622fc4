"""Blob storage: an account without keys, closed to the internet, and its private containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from fairway_agent.quick import dataclass
from fairway_constructs.azurerm import storage_account as accounts
from fairway_constructs.azurerm import storage_management_policy as policies
from fairway_constructs.azurerm.data_storage_container import DataStorageContainer
from fairway_constructs.azurerm.storage_container import StorageContainer
from fairway_constructs.network_access import public_addresses
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import unique_name
from fairway_constructs.service import Diagnostics, Service
from fairway_core.catalog.tables import look_up
from fairway_core.catalog.terraform_types import blob_host
from fairway_core.naming import check_name
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.identity import Grantee
    from fairway_constructs.network import INetwork
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.vault import CustomerManagedKey
    from fairway_core.environment.storage import Replication
    from fairway_core.fields import Count


_BLOB_TYPES = ("blockBlob", "appendBlob")


# Long enough to notice a deletion after a holiday.
_KEPT_DAYS = 14


def _expire(scope: Construct, account_id: str, expire_days: Mapping[str, int]) -> None:
    """Deletes blobs that were not modified for the `expire_days` of their container.

    Overwritten and deleted blobs are kept as versions, which are deleted after _KEPT_DAYS. Soft
    deletion then keeps everything once more, for as long as the account's settings say.
    """
    snapshot = policies.RuleActionsSnapshot(
        delete_after_days_since_creation_greater_than=_KEPT_DAYS
    )
    version = policies.RuleActionsVersion(delete_after_days_since_creation=_KEPT_DAYS)
    rules: list[tuple[str, list[str], policies.RuleActions]] = [
        ("old-versions", [], policies.RuleActions(snapshot=snapshot, version=version))
    ]
    for container, days in expire_days.items():
        blob = policies.RuleActionsBaseBlob(delete_after_days_since_modification_greater_than=days)
        rules.append(
            (f"expire-{container}", [f"{container}/"], policies.RuleActions(base_blob=blob))
        )
    policies.StorageManagementPolicy(
        scope,
        "lifecycle",
        storage_account_id=account_id,
        rule=[
            policies.Rule(
                name=name,
                enabled=True,
                filters=policies.RuleFilters(blob_types=_BLOB_TYPES, prefix_match=prefixes or None),
                actions=actions,
            )
            for name, prefixes, actions in rules
        ],
    )


# Deleted and overwritten blobs can be recovered for a while.
_RECOVERABLE = accounts.BlobProperties(
    versioning_enabled=True,
    delete_retention_policy=accounts.BlobPropertiesDeleteRetentionPolicy(days=_KEPT_DAYS),
    container_delete_retention_policy=accounts.BlobPropertiesContainerDeleteRetentionPolicy(
        days=_KEPT_DAYS
    ),
)


@runtime_checkable
class Container(Protocol):
    """A container of blobs, by its id.

    >>> storage.containers["datasets"].id
    """

    @property
    def id(self) -> str:
        """The id, for role assignments."""


@dataclass(frozen=True)
class _ExistingContainer:
    """A container of an account that exists already."""

    id: str


class IStorage(Service):
    """A new or existing storage account and its containers.

    >>> storage.grant_read(identity)
    """

    LINKS: ClassVar = {"": "blob"}
    USUAL_ID = "storage"
    # A training job reads millions of blobs, and writes checkpoints: logging each would cost more
    # than it is worth.
    DIAGNOSTICS = Diagnostics(part="/blobServices/default", categories=("StorageDelete",))

    host: str
    account_url: str
    containers: Mapping[str, Container]

    def grant_read_write(self, grantee: Grantee) -> None:
        """Lets the grantee read and write blobs of all containers, without a key."""
        self._grant_blobs(grantee, "Contributor", "read and write")

    def grant_read(self, grantee: Grantee) -> None:
        """Lets the grantee read blobs of all containers, without a key."""
        self._grant_blobs(grantee, "Reader", "read")

    def _grant_blobs(self, grantee: Grantee, role: str, do: str) -> None:
        for name, container in self.containers.items():
            does = f"{do} the container {name} without a key"
            self._grant(grantee, name, f"Storage Blob Data {role}", does, on=container.id)


class Storage(IStorage):
    """A storage account that only Entra ID identities can use, unless `account_keys` is set.

    It is reached by private endpoints, from `subnets` and from the public ranges in `allowed`;
    with `network` by the private endpoint that is created in it, or else from its compute subnet.
    Without any of them it has no public access at all; with `public` it is open to every address.
    Deleted and overwritten blobs can be recovered for two weeks; in the containers of `expire_days`
    blobs that were not modified for that long are deleted. `account` is the name to use; otherwise
    Terraform makes a unique one, see `unique_suffix`. In a stack with `protect` neither Terraform
    nor Azure deletes the account; `lock` overrides this for Azure.

    Raises UserError for a name that Azure does not accept, and for `expire_days` of a container
    that is not created.

    >>> storage = Storage(stack, containers=["datasets"], network=network)
    >>> storage.grant_read_write(identity)
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "storage",
        *,
        containers: Sequence[str],
        network: INetwork | None = None,
        subnets: Sequence[SubnetRef] = (),
        allowed: Sequence[IPv4Network | str] = (),
        public: bool = False,
        replication: Replication | None = None,
        account: str | None = None,
        expire_days: Mapping[str, Count] | None = None,
        customer_managed_key: CustomerManagedKey | None = None,
        account_keys: bool = False,
        lock: bool | None = None,
    ) -> None:
        if account is not None:
            check_name("storage_account", account)
        for container in containers:
            check_name("storage_container", container)
        for container in expire_days or ():
            look_up(container, {name: name for name in containers}, "container")
        super().__init__(scope, id)
        azure = self.azure
        if network is not None and network.endpoints is None:
            subnets = [*subnets, network.subnet("compute")]
        self.account = accounts.StorageAccount(
            self,
            "storage",
            name=account or unique_name(self, "storage_account"),
            **azure.common,
            account_tier="Standard",
            account_replication_type=replication or ("ZRS" if azure.zone else "LRS"),
            **sign_in(account_keys=account_keys),
            local_user_enabled=False,
            https_traffic_only_enabled=True,
            **access_arguments(subnets, public_addresses(allowed), public=public),
            infrastructure_encryption_enabled=True,
            **encrypted_by(customer_managed_key),
            blob_properties=_RECOVERABLE,
            lifecycle=lifecycle_of(self),
        )
        self.id = account_id = self.account.id
        self.account_url = self.account.primary_blob_endpoint
        self.host = blob_host(self.account.name)
        self.containers = {
            name: private_container(self, f"container-{name}", name, account_id)
            for name in containers
        }
        _expire(self, account_id, expire_days or {})
        delete_lock(self, id="storage", on=self.account, lock=lock)
        if network is not None and network.endpoints is not None:
            self.private_endpoints(network)

    @classmethod
    def from_id(
        cls, scope: Construct, id: str, account_id: str, *, containers: Sequence[str] = ()
    ) -> IStorage:
        """Returns an existing account with these containers: nothing is created.

        The plan fails if one of the containers does not exist. Terraform reads them by the id of
        the account, and not the account itself, as its state would then hold the keys.
        """
        found = IStorage(scope, id)
        found.id = account_id
        found.host = blob_host(parts_of("storage account", account_id)["name"])
        found.account_url = f"https://{found.host}/"
        for name in containers:
            DataStorageContainer(
                found, f"container-{name}", name=name, storage_account_id=account_id
            )
        found.containers = {
            name: _ExistingContainer(f"{account_id}/blobServices/default/containers/{name}")
            for name in containers
        }
        return found


def private_container(scope: Construct, id: str, name: str, account_id: str) -> StorageContainer:
    """Creates a container whose blobs only identities can read."""
    return StorageContainer(
        scope,
        id,
        name=name,
        storage_account_id=account_id,
        container_access_type="private",
        lifecycle=lifecycle_of(scope),
    )


def sign_in(*, account_keys: bool) -> dict[str, Any]:
    """Returns the arguments for access to an account: by identities, and if enabled by keys."""
    return {
        "shared_access_key_enabled": account_keys,
        # Tokens signed by keys cannot be revoked: long-lived ones are at least logged.
        "sas_policy": (
            accounts.SasPolicy(expiration_period="01.00:00:00", expiration_action="Log")
            if account_keys
            else None
        ),
        "default_to_oauth_authentication": True,
        "allow_nested_items_to_be_public": False,
        "cross_tenant_replication_enabled": False,
    }


def access_arguments(
    subnets: Sequence[SubnetRef], addresses: Sequence[str] = (), *, public: bool = False
) -> dict[str, Any]:
    """Returns the arguments for access to an account, except by its private endpoints."""
    return {
        "min_tls_version": "TLS1_2",
        "public_network_access_enabled": bool(public or subnets or addresses),
        "network_rules": accounts.NetworkRules(
            default_action="Allow" if public else "Deny",
            bypass=["AzureServices"],
            # Without a list, the provider would leave those that were there.
            virtual_network_subnet_ids=[each.id for each in subnets],
            ip_rules=list(addresses),
        ),
    }


def encrypted_by(key: CustomerManagedKey | None) -> dict[str, Any]:
    """Returns the arguments by which a storage account uses a key."""
    if key is None:
        return {}
    return {
        "identity": accounts.Identity(type="UserAssigned", identity_ids=[key.identity_id]),
        "customer_managed_key": accounts.CustomerManagedKey(
            key_vault_key_id=key.url, user_assigned_identity_id=key.identity_id
        ),
        "depends_on": key.ready,
    }
