"""What is there already in a company: its DNS servers and zones, and its registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    Written = Callable[..., dict[str, dict[str, Any]]]

_SECTIONS = Path(__file__).with_name("sections")
_OWN_ZONES = {"azurerm_private_dns_zone", "azurerm_private_dns_zone_virtual_network_link"}


def _endpoints(stack: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stack["resource"]["azurerm_private_endpoint"]
    return found


def test_the_zones_and_servers_of_a_hub_are_used(written: Written) -> None:
    """No zone is made, and none is linked: a network takes one link for a name."""
    stacks = written(_SECTIONS / "hub.yaml")
    network = stacks["network"]["resource"]
    assert network["azurerm_virtual_network"]["vnet"]["dns_servers"] == ["10.0.0.10", "10.0.0.11"]
    assert not _OWN_ZONES & set(network)
    for name, endpoint in _endpoints(stacks["data"]).items():
        (zone,) = endpoint["private_dns_zone_group"]["private_dns_zone_ids"]
        assert "/resourceGroups/hub/" in zone, name
        assert "lifecycle" not in endpoint


def test_zones_may_be_left_to_a_policy(written: Written) -> None:
    """What that enters is no drift."""
    stacks = written(_SECTIONS / "sweeps.yaml")
    assert not _OWN_ZONES & set(stacks["network"]["resource"])
    endpoints = _endpoints(stacks["data"])
    assert endpoints
    for endpoint in endpoints.values():
        assert "private_dns_zone_group" not in endpoint
        assert endpoint["lifecycle"]["ignore_changes"] == ["private_dns_zone_group"]


def test_nodes_may_pull_from_a_registry_that_is_there(written: Written) -> None:
    data = written(_SECTIONS / "sweeps.yaml")["data"]
    assert "azurerm_container_registry" not in data["resource"]
    assert "registry-endpoint" not in _endpoints(data)
    (grant,) = [
        grant
        for grant in data["resource"]["azurerm_role_assignment"].values()
        if grant["role_definition_name"] == "AcrPull"
    ]
    assert grant["scope"].endswith("/registries/Contoso")


def test_logs_go_to_a_workspace_that_is_there(written: Written) -> None:
    stacks = written(_SECTIONS / "hub.yaml")
    data = stacks["data"]["resource"]
    assert "azurerm_log_analytics_workspace" not in data
    (rule,) = data["azurerm_monitor_data_collection_rule"].values()
    (destination,) = rule["destinations"]["log_analytics"]
    assert destination["workspace_resource_id"].endswith("/workspaces/logs")
    for setting in data["azurerm_monitor_diagnostic_setting"].values():
        assert setting["log_analytics_workspace_id"].endswith("/workspaces/logs")
    text = (_SECTIONS / "hub.yaml").read_text()
    kept = text.replace("  workspace:", "  retention: 60d\n  workspace:")
    with pytest.raises(UserError, match="for as long as its owner says"):
        written(kept)


def test_pools_know_that_registry(written: Written) -> None:
    text = (_SECTIONS / "sweeps.yaml").read_text()
    text = text.replace("spot: true,", "spot: true, containers: true,")
    for given, server in ((text, "contoso-abc.azurecr.io"), (_unnamed(text), "contoso.azurecr.io")):
        stack = written(given)["compute"]["resource"]["azurerm_batch_pool"]
        assert json.dumps(server) in json.dumps(stack), server


def _unnamed(text: str) -> str:
    return text.replace(", login_server: contoso-abc.azurecr.io", "")
