"""Rules on plans, where one example is not enough."""

from typing import Any

import pytest

from fairway_core.checks import check_plan

SET = "azurerm_linux_virtual_machine_scale_set"
SIZE = "Standard_ND96isr_H100_v5"


def _found(
    type_: str, before: Any, after: Any, actions: str = "update", **more: Any
) -> dict[str, str]:
    """Messages by id."""
    change = {"actions": actions.split(), "before": before, "after": after, **more}
    resource = {"address": f"{type_}.x", "type": type_, "change": change}
    return {one.id: one.message for one in check_plan({"resource_changes": [resource]})}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"sku": SIZE}, {"sku": "Standard_ND96is_H100_v5"}, "Standard_ND96is_H100_v5 has none"),
        ({"sku": SIZE}, {"sku": "Standard_New_v9"}, "not known to have it"),
        ({"sku": SIZE}, {"sku": "Standard_ND96isr_H200_v5"}, None),
        ({"sku": SIZE}, {"sku": SIZE.upper()}, None),
        ({"sku": SIZE, "zones": ["1"]}, {"sku": SIZE, "zones": ["1", "2"]}, "another zone"),
        ({"sku": SIZE}, {"sku": SIZE, "capacity_reservation_group_id": "/x"}, "reservation"),
        ({"sku": "Standard_D4s_v6"}, {"sku": "Standard_D8s_v6"}, None),
    ],
)
def test_infiniband_is_lost(before: Any, after: Any, lost: str | None) -> None:
    found = _found(SET, before, after)
    assert ("lost-infiniband" in found) is (lost is not None)
    assert (lost or "") in found.get("lost-infiniband", "")


def test_a_pool_loses_it_too() -> None:
    before = {"vm_size": SIZE.upper(), "inter_node_communication": "Enabled"}
    after = {**before, "inter_node_communication": "Disabled"}
    assert "lost-infiniband" in _found("azurerm_batch_pool", before, after, "delete create")
    assert _found("azurerm_batch_pool", before, before) == {}


@pytest.mark.parametrize(
    ("attribute", "old", "new", "reimaged"),
    [
        ("custom_data", "a", "b", True),
        ("os_disk", [{"disk_size_gb": 64}], [{"disk_size_gb": 128}], True),
        ("admin_ssh_key", [{"public_key": "a"}], [{"public_key": "b"}], True),
        ("instances", 2, 3, False),
        ("tags", {}, {"a": "b"}, False),
        ("os_disk", [{"edge": ""}], [{"edge": None}], False),
        ("extension", None, [], False),
    ],
)
def test_nodes_are_reimaged(attribute: str, old: Any, new: Any, reimaged: bool) -> None:
    secret = {"before_sensitive": {attribute: True}, "after_sensitive": {attribute: True}}
    found = _found(SET, {attribute: old, "x": 1}, {attribute: new, "x": 1}, **secret)
    assert ("reimaged-nodes" in found) is reimaged
    if reimaged:
        assert attribute in found["reimaged-nodes"]


RULE: dict[str, Any] = {
    "name": "ssh",
    "direction": "Inbound",
    "access": "Allow",
    "protocol": "Tcp",
    "source_address_prefix": "10.0.0.0/8",
    "destination_port_range": "22",
}


@pytest.mark.parametrize(
    ("change", "opened"),
    [
        ({"source_address_prefix": "*"}, True),
        ({"source_address_prefix": "Internet"}, True),
        ({"source_address_prefix": "0.0.0.0/0"}, True),
        ({"source_address_prefix": "203.0.113.0/24"}, False),  # kept for documentation
        ({"source_address_prefix": "52.0.0.0/8"}, True),
        ({"source_address_prefix": None, "source_address_prefixes": ["10.1.0.0/16", "*"]}, True),
        ({"source_address_prefix": "AzureCloud"}, True),
        ({"source_address_prefix": "VirtualNetwork"}, False),
        ({"source_address_prefix": "172.20.0.0/16"}, False),
        ({"source_address_prefix": "*", "access": "Deny"}, False),
        ({"source_address_prefix": "*", "direction": "Outbound"}, False),
    ],
)
def test_a_rule_opens(change: Any, opened: bool) -> None:
    new = {**RULE, **change}
    group = "azurerm_network_security_group"
    one = _found("azurerm_network_security_rule", RULE, new)
    block = _found(group, {"security_rule": [RULE]}, {"security_rule": [new]})
    made = _found(group, None, {"security_rule": [new]}, "create")
    assert [("network-opened" in each) for each in (one, block, made)] == [opened] * 3


def test_more_ports_of_the_internet_open() -> None:
    before = {**RULE, "source_address_prefix": "*"}
    after = {**before, "destination_port_range": "*"}
    kind = "azurerm_network_security_rule"
    assert "network-opened" in _found(kind, before, after)
    assert _found(kind, before, {**before, "description": "x"}) == {}


def test_a_denial_that_goes_opens() -> None:
    deny = {**RULE, "name": "deny", "access": "Deny", "source_address_prefix": "*"}
    group = "azurerm_network_security_group"
    found = _found(group, {"security_rule": [RULE, deny]}, {"security_rule": [RULE]})
    assert "rule `deny`" in found["network-opened"]
    association = "azurerm_subnet_network_security_group_association"
    assert "network-opened" in _found(association, {"id": "x"}, None, "delete")
    assert _found(association, None, {"id": "x"}, "create") == {}


@pytest.mark.parametrize(
    ("before", "after", "opened"),
    [
        ({"public_network_access_enabled": False}, {"public_network_access_enabled": True}, True),
        ({"public_network_access_enabled": True}, {"public_network_access_enabled": False}, False),
        ({"public_network_access_enabled": True}, {"public_network_access_enabled": True}, False),
        (
            {"network_rules": [{"default_action": "Deny"}]},
            {"network_rules": [{"default_action": "Allow"}]},
            True,
        ),
        (
            {"network_acls": [{"default_action": "Deny", "ip_rules": []}]},
            {"network_acls": [{"default_action": "Deny", "ip_rules": ["52.1.2.3"]}]},
            True,
        ),
        (
            {"network_rules": [{"default_action": "Deny", "ip_rules": ["52.1.2.3"]}]},
            {"network_rules": [{"default_action": "Deny", "ip_rules": []}]},
            False,
        ),
    ],
)
def test_a_service_opens(before: Any, after: Any, opened: bool) -> None:
    assert ("network-opened" in _found("azurerm_storage_account", before, after)) is opened


GRANT = {
    "role_definition_name": "Reader",
    "role_definition_id": None,
    "scope": "/subscriptions/0/resourceGroups/lab",
    "principal_id": "a",
}


@pytest.mark.parametrize(
    ("change", "wider"),
    [
        ({"scope": "/subscriptions/0"}, True),
        ({"scope": "/subscriptions/0/resourceGroups/laboratory"}, True),
        ({"scope": "/subscriptions/0/resourceGroups/lab/providers/x"}, False),
        ({"role_definition_name": "Owner"}, True),
        ({"principal_id": "b"}, True),
        ({"role_definition_id": "/x", "description": "y"}, False),
    ],
)
def test_a_grant_widens(change: Any, wider: bool) -> None:
    found = _found("azurerm_role_assignment", GRANT, {**GRANT, **change}, "delete create")
    assert ("wider-grant" in found) is wider


def test_a_new_grant_is_told_and_a_broad_one_is_called_so() -> None:
    kind = "azurerm_role_assignment"
    assert "broad" not in _found(kind, None, GRANT, "create")["wider-grant"]
    owner = {**GRANT, "role_definition_name": "Owner"}
    assert "broad" in _found(kind, None, owner, "create")["wider-grant"]
    assert _found(kind, GRANT, None, "delete") == {}


def test_a_role_that_allows_more() -> None:
    kind = "azurerm_role_definition"
    before = {"permissions": [{"actions": ["a/read"]}]}
    after = {"permissions": [{"actions": ["a/read", "a/write"], "data_actions": ["b"]}]}
    assert "a/write, b" in _found(kind, before, after)["wider-grant"]
    assert _found(kind, after, before) == {}


def test_no_message_repeats_a_secret() -> None:
    new = {**RULE, "source_address_prefix": "52.1.2.3"}
    mask = {"after_sensitive": {"source_address_prefix": True}}
    found = _found("azurerm_network_security_rule", None, new, "create", **mask)
    assert "52.1.2.3" not in found["network-opened"]
    secret = {"after_sensitive": {"principal_id": True}}
    owner = {**GRANT, "principal_id": "hunter2"}
    found = _found("azurerm_role_assignment", None, owner, "create", **secret)
    assert "hunter2" not in found["wider-grant"]
