"""The network: one way out, nothing in but what is named."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.network import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_constructs.cdk import Stack

    Synthesize = Callable[[Callable[[Stack], object]], dict[str, Any]]

SPACE = IPv4Network("10.40.0.0/16")
ROLES = ("compute", "storage", "management")


def _network(synthesize: Synthesize, allowed: Sequence[str] = ()) -> dict[str, Any]:
    ranges = [IPv4Network(text) for text in allowed]

    def build(stack: Stack) -> Network:
        return Network(stack, address_space=SPACE, allowed=ranges)

    resources: dict[str, Any] = synthesize(build)["resource"]
    return resources


def _rules(resources: dict[str, Any], role: str) -> dict[str, Any]:
    group = resources["azurerm_network_security_group"][f"{role}-rules"]
    return {rule["name"]: rule for rule in group["security_rule"]}


def test_network_gives_each_role_a_subnet_with_rules_and_nat(synthesize: Synthesize) -> None:
    resources = _network(synthesize)
    assert set(resources["azurerm_subnet"]) == set(ROLES)
    for role in ROLES:
        subnet = resources["azurerm_subnet"][role]
        assert subnet["name"] == f"lab-snet-{role}"
        assert subnet["default_outbound_access_enabled"] is False
        subnet_id = f"${{azurerm_subnet.{role}.id}}"
        rules = resources["azurerm_subnet_network_security_group_association"][f"{role}-has-rules"]
        assert rules["subnet_id"] == subnet_id
        assert rules["network_security_group_id"] == (
            f"${{azurerm_network_security_group.{role}-rules.id}}"
        )
        nat = resources["azurerm_subnet_nat_gateway_association"][f"{role}-has-nat"]
        assert nat["subnet_id"] == subnet_id


def test_only_compute_reaches_blob_storage_by_its_own_network(synthesize: Synthesize) -> None:
    subnets = _network(synthesize)["azurerm_subnet"]
    assert subnets["compute"]["service_endpoint"] == [{"service": "Microsoft.Storage"}]
    assert "service_endpoint" not in subnets["storage"]


def test_the_only_public_address_is_the_nat_gateways(synthesize: Synthesize) -> None:
    resources = _network(synthesize)
    assert list(resources["azurerm_public_ip"]) == ["nat-address"]
    assert resources["azurerm_public_ip"]["nat-address"]["zones"] == ["2"]
    association = resources["azurerm_nat_gateway_public_ip_association"]
    assert association["nat-address-of-gateway"]["public_ip_address_id"] == (
        "${azurerm_public_ip.nat-address.id}"
    )


@pytest.mark.parametrize("role", ROLES)
def test_the_last_rule_refuses_everything_else(synthesize: Synthesize, role: str) -> None:
    rules = _rules(_network(synthesize, ["203.0.113.0/24"]), role)
    last = max(rules.values(), key=lambda rule: rule["priority"])
    assert last["access"] == "Deny"
    assert last["source_address_prefix"] == "*"
    assert last["destination_port_range"] == "*"
    assert last["protocol"] == "*"


@pytest.mark.parametrize("role", ROLES)
def test_network_rules_allow_no_source_outside_the_network(
    synthesize: Synthesize, role: str
) -> None:
    for rule in _rules(_network(synthesize), role).values():
        if rule["access"] == "Allow":
            sources = rule["source_address_prefixes"]
            assert all(IPv4Network(source).subnet_of(SPACE) for source in sources)


def test_nfs_is_open_to_compute_alone(synthesize: Synthesize) -> None:
    rules = _rules(_network(synthesize), "storage")
    nfs = rules["AllowNfsFromCompute"]
    assert nfs["source_address_prefixes"] == ["10.40.0.0/17"]
    assert nfs["destination_address_prefixes"] == ["10.40.128.0/21"]
    assert nfs["destination_port_range"] == "2049"
    assert nfs["protocol"] == "Tcp"
    ports = {r["destination_port_range"] for r in rules.values() if r["access"] == "Allow"}
    assert ports == {"2049", "22"}


def test_nodes_reach_each_other_on_every_port(synthesize: Synthesize) -> None:
    rule = _rules(_network(synthesize), "compute")["AllowComputeToCompute"]
    assert rule["source_address_prefixes"] == rule["destination_address_prefixes"]
    assert rule["destination_port_range"] == "*"
    assert rule["protocol"] == "*"


@pytest.mark.parametrize("role", ROLES)
def test_ssh_is_open_to_named_ranges_and_only_then(synthesize: Synthesize, role: str) -> None:
    assert "AllowSshFromNamedRanges" not in _rules(_network(synthesize), role)


def test_a_named_range_may_use_ssh_and_nothing_else(synthesize: Synthesize) -> None:
    resources = _network(synthesize, ["203.0.113.0/24", "198.51.100.7/32"])
    for role in ROLES:
        rule = _rules(resources, role)["AllowSshFromNamedRanges"]
        assert rule["source_address_prefixes"] == ["203.0.113.0/24", "198.51.100.7/32"]
        assert rule["destination_port_range"] == "22"


@pytest.mark.parametrize("role", ROLES)
def test_priorities_are_all_different(synthesize: Synthesize, role: str) -> None:
    rules = _rules(_network(synthesize, ["203.0.113.0/24"]), role)
    assert len({rule["priority"] for rule in rules.values()}) == len(rules)


def test_network_resources_are_tagged(synthesize: Synthesize) -> None:
    resources = _network(synthesize)
    for kind in ("virtual_network", "network_security_group", "public_ip", "nat_gateway"):
        for resource in resources[f"azurerm_{kind}"].values():
            assert resource["tags"] == {"owner": "me", "environment": "lab"}
