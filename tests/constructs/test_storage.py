"""Blob storage and the identity that opens it: closed, keyless, and hard to lose."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.identity import Identity
from fairway_constructs.storage import Storage
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_constructs.cdk import Stack

    Synthesize = Callable[..., dict[str, Any]]


def _storage(synthesize: Synthesize, **arguments: Any) -> dict[str, Any]:
    def build(stack: Stack) -> Storage:
        return Storage(stack, containers=["datasets", "code"], subnet_ids=["/subnet"], **arguments)

    return synthesize(build)


def test_the_account_knows_no_keys_and_no_strangers(synthesize: Synthesize) -> None:
    account = _storage(synthesize)["resource"]["azurerm_storage_account"]["storage"]
    for closed in (
        "shared_access_key_enabled",
        "allow_nested_items_to_be_public",
        "cross_tenant_replication_enabled",
        "local_user_enabled",
    ):
        assert account[closed] is False, closed
    assert account["min_tls_version"] == "TLS1_2"
    assert account["https_traffic_only_enabled"] is True
    assert account["infrastructure_encryption_enabled"] is True
    assert account["network_rules"] == {
        "default_action": "Deny",
        "bypass": ["AzureServices"],
        "virtual_network_subnet_ids": ["/subnet"],
    }


def test_storage_keeps_versions_and_deleted_blobs(synthesize: Synthesize) -> None:
    account = _storage(synthesize)["resource"]["azurerm_storage_account"]["storage"]
    properties = account["blob_properties"]
    assert properties["versioning_enabled"] is True
    assert properties["delete_retention_policy"]["days"] >= 7
    assert properties["container_delete_retention_policy"]["days"] >= 7


def test_containers_are_private(synthesize: Synthesize) -> None:
    containers = _storage(synthesize)["resource"]["azurerm_storage_container"]
    assert {c["name"] for c in containers.values()} == {"datasets", "code"}
    assert {c["container_access_type"] for c in containers.values()} == {"private"}


def test_the_name_is_made_unique_by_the_subscription(synthesize: Synthesize) -> None:
    document = _storage(synthesize)
    name = document["resource"]["azurerm_storage_account"]["storage"]["name"]
    assert name == (
        'labst${substr(sha256(join("-", '
        '[data.azurerm_client_config.current.subscription_id, "lab"])), 0, 8)}'
    )
    assert "current" in document["data"]["azurerm_client_config"]


def test_a_name_of_ones_own_is_taken_as_it_is(synthesize: Synthesize) -> None:
    document = _storage(synthesize, account="contosodata")
    assert document["resource"]["azurerm_storage_account"]["storage"]["name"] == "contosodata"
    assert "data" not in document


def test_a_name_that_azure_refuses_is_refused_before(synthesize: Synthesize) -> None:
    with pytest.raises(UserError, match="not a valid name for a storage account"):
        _storage(synthesize, account="Contoso-Data")


def test_protected_data_is_destroyed_neither_by_terraform_nor_by_hand(
    synthesize: Synthesize,
) -> None:
    resources = _storage(synthesize)["resource"]
    assert resources["azurerm_storage_account"]["storage"]["lifecycle"]["prevent_destroy"] is True
    for container in resources["azurerm_storage_container"].values():
        assert container["lifecycle"]["prevent_destroy"] is True
    lock = resources["azurerm_management_lock"]["storage-lock"]
    assert lock["lock_level"] == "CanNotDelete"
    assert lock["scope"] == "${azurerm_storage_account.storage.id}"


def test_unprotected_data_can_be_destroyed(synthesize: Synthesize) -> None:
    resources = _storage(partial(synthesize, protect=False))["resource"]
    assert "azurerm_management_lock" not in resources
    assert "lifecycle" not in resources["azurerm_storage_account"]["storage"]


def test_every_grant_of_an_identity_says_why(synthesize: Synthesize) -> None:
    def build(stack: Stack) -> None:
        nodes = Identity(stack, "nodes")
        nodes.grant("datasets", "Storage Blob Data Reader", on="/container", reason="To read it")

    resources = synthesize(build)["resource"]
    assert resources["azurerm_user_assigned_identity"]["nodes"]["name"] == "lab-id-nodes"
    assert (
        resources["azurerm_role_assignment"]["nodes-datasets"].items()
        >= {
            "role_definition_name": "Storage Blob Data Reader",
            "scope": "/container",
            "description": "To read it",
            "principal_type": "ServicePrincipal",
            "principal_id": "${azurerm_user_assigned_identity.nodes.principal_id}",
        }.items()
    )


def test_storage_from_id_grants_the_same_roles(synthesize: Synthesize) -> None:
    account = (
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
        "/Microsoft.Storage/storageAccounts/theirs"
    )

    def build(stack: Stack) -> None:
        nodes = Identity(stack, "nodes")
        Storage.from_id(stack, "shared", account, containers=["raw"]).grant_read(nodes)
        Storage(stack, containers=["outputs"]).grant_read_write(nodes)
        with pytest.raises(UserError, match="not the id of a storage account"):
            Storage.from_id(stack, "other", "/subscriptions/x", containers=[])

    document = synthesize(build)
    grants = document["resource"]["azurerm_role_assignment"]
    assert {name: one["role_definition_name"] for name, one in grants.items()} == {
        "nodes-shared-raw": "Storage Blob Data Reader",
        "nodes-outputs": "Storage Blob Data Contributor",
    }
    assert grants["nodes-shared-raw"]["scope"].endswith(
        "/theirs/blobServices/default/containers/raw"
    )
    assert set(document["data"]["azurerm_storage_container"]) == {"container-raw"}
