"""The Batch account: no keys, no way in but the one asked for, and the mode with its vault."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.batch_account import AutoStorage, BatchAccount
from fairway_constructs.batch_user_subscription import BatchUserSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_constructs.cdk import Stack
    from fairway_constructs.placement import Placement

    Synthesize = Callable[..., dict[str, Any]]

HOME = IPv4Network("203.0.113.0/24")
VPN = IPv4Network("10.0.0.0/8")


def _account(synthesize: Synthesize, **arguments: Any) -> dict[str, Any]:
    document = synthesize(lambda stack: BatchAccount(stack, **arguments))
    account: dict[str, Any] = document["resource"]["azurerm_batch_account"]["batch"]
    return account


def test_batch_account_is_closed_to_the_public_network_by_default(
    synthesize: Synthesize, place: Placement
) -> None:
    account = _account(synthesize)
    assert account["allowed_authentication_modes"] == ["AAD"]
    assert account["public_network_access_enabled"] is False
    assert "network_profile" not in account
    assert account["pool_allocation_mode"] == "BatchService"
    assert account["name"].startswith("labba${substr(sha256(")
    assert account["tags"] == place.tags
    assert account["lifecycle"] == {"prevent_destroy": True}
    assert "storage_account_id" not in account
    assert "identity" not in account


def test_named_ranges_get_in_and_nodes_report_from_their_way_out(synthesize: Synthesize) -> None:
    account = _account(synthesize, allowed=[HOME, VPN], egress_address="198.51.100.7")
    assert account["public_network_access_enabled"] is True
    assert account["network_profile"] == {
        "account_access": {
            "default_action": "Deny",
            "ip_rule": [{"ip_range": "203.0.113.0/24"}],
        },
        "node_management_access": {
            "default_action": "Deny",
            "ip_rule": [{"ip_range": "198.51.100.7"}],
        },
    }


def test_small_ranges_are_written_address_by_address(synthesize: Synthesize) -> None:
    allowed = [IPv4Network("8.8.8.8/32"), IPv4Network("8.8.4.4/31"), IPv4Network("9.9.9.8/30")]
    profile = _account(synthesize, allowed=allowed)["network_profile"]
    assert profile["account_access"]["ip_rule"] == [
        {"ip_range": each} for each in ("8.8.8.8", "8.8.4.4", "8.8.4.5", "9.9.9.8/30")
    ]


def test_nodes_with_an_endpoint_need_no_way_in_from_outside(synthesize: Synthesize) -> None:
    profile = _account(synthesize, allowed=[HOME])["network_profile"]
    assert profile["node_management_access"] == {"default_action": "Deny"}
    assert _account(synthesize, allowed=[VPN])["public_network_access_enabled"] is False


def test_batchs_own_storage_is_reached_without_a_key(synthesize: Synthesize) -> None:
    storage = AutoStorage(storage_account="/st", account_identity="/id/a", node_identity="/id/n")
    account = _account(partial(synthesize, protect=False), auto_storage=storage)
    assert account["storage_account_authentication_mode"] == "BatchAccountManagedIdentity"
    assert account["storage_account_id"] == "/st"
    assert account["storage_account_node_identity"] == "/id/n"
    assert account["identity"] == {"type": "UserAssigned", "identity_ids": ["/id/a"]}
    assert "lifecycle" not in account


@pytest.fixture
def own(synthesize: Synthesize) -> dict[str, Any]:
    """An account that makes its VMs in the subscription."""

    def build(stack: Stack) -> None:
        first = BatchUserSubscription(stack, service_principal="batch-in-our-directory")
        BatchAccount(stack, user_subscription=first)

    resources: dict[str, Any] = synthesize(build)["resource"]
    return resources


def test_the_subscription_mode_comes_after_its_roles(own: dict[str, Any]) -> None:
    account = own["azurerm_batch_account"]["batch"]
    assert account["pool_allocation_mode"] == "UserSubscription"
    assert account["key_vault_reference"] == {
        "id": "${azurerm_key_vault.batch-vault.id}",
        "url": "${azurerm_key_vault.batch-vault.vault_uri}",
    }
    roles = own["azurerm_role_assignment"]
    assert set(account["depends_on"]) == {f"azurerm_role_assignment.{name}" for name in roles}
    assert {role["principal_id"] for role in roles.values()} == {"batch-in-our-directory"}
    assert all(role["description"] for role in roles.values())
    # The directory has known it for long.
    assert not any("skip_service_principal_aad_check" in role for role in roles.values())
    subscription = "${data.azurerm_client_config.current.subscription_id}"
    assert roles["batch-orchestrates"]["scope"] == f"/subscriptions/{subscription}"
    assert roles["batch-keeps-secrets"]["scope"] == "${azurerm_key_vault.batch-vault.id}"


def test_the_vault_is_batchs_own_and_closed(own: dict[str, Any]) -> None:
    vault = own["azurerm_key_vault"]["batch-vault"]
    assert vault["network_acls"] == {"default_action": "Deny", "bypass": "AzureServices"}
    assert vault["rbac_authorization_enabled"] is True
    assert vault["purge_protection_enabled"] is True
    assert vault["enabled_for_deployment"] is True
    assert vault["enabled_for_template_deployment"] is True
    assert vault["name"].startswith("lab-kvb")
    assert vault["lifecycle"] == {"prevent_destroy": True}
    (lock,) = own["azurerm_management_lock"].values()
    assert lock["scope"] == "${azurerm_key_vault.batch-vault.id}"
