"""Each kind of fault is found in a document that is good without it."""

import copy
import json
from typing import Any

import pytest
from tests.constructs.bindings.validator import validate

from fairway_constructs.bindings.facts import Facts

_GOOD: dict[str, Any] = {
    "//": {"metadata": {}},
    "terraform": {"required_providers": {}},
    "provider": {"azurerm": [{"features": {}}, {"alias": "two", "features": [{"storage": {}}]}]},
    "data": {
        "azurerm_probe": {"found": {"id": "/x", "provider": "azurerm.two"}},
        "terraform_remote_state": {
            "other": {"backend": "local", "config": {"path": "p"}, "workspace": "${x}"}
        },
    },
    "resource": {
        "terraform_data": {"marker": {"input": [1, "a"], "triggers_replace": {"a": 1}}},
        "azurerm_probe": {
            "one": {
                "//": {"metadata": {}},
                "depends_on": ["terraform_data.marker"],
                "lifecycle": {"prevent_destroy": True},
                "name": "p-${x}",
                "scope": "${x}",
                "from": None,
                "size": "${x}",
                "enabled": "${x}",
                "zones": ["1", "${x}"],
                "ports": "${x}",
                "labels": {"a": "b"},
                "registries": [{"server": "s", "user": None, "ports": [1]}, "${x}"],
                "disk": {"size_gb": 1.5, "encryption": [{"key_id": "k"}]},
                "identity": [{"type": "SystemAssigned"}],
                "listener": [{"port": 80}, {"port": 443}],
                "probe": [{"path": "/"}, {"path": "/a"}],
                "timeouts": {"create": "1h"},
            }
        },
    },
    "output": {"any": {"value": "${x}"}},
}


def test_a_good_document_passes(facts: Facts) -> None:
    assert list(validate(_GOOD, facts)) == []
    assert list(validate({}, facts)) == []


_ONE = "resource.azurerm_probe.one"
# What each kind of fault is called, whatever the name.
SAID = {
    "unknown-type": "there are no bindings of `",
    "unknown-attribute": "there is no argument `",
    "missing-attribute": "` is required",
    "computed-attribute": "` is set by Azure alone",
    "wrong-type": ", where Terraform wants ",
    "block-count": " of this block, where ",
}
_MISSING = object()


@pytest.mark.parametrize(
    ("path", "value", "id_", "at"),
    [
        # Unknown names.
        ("resource.azurerm_prob", {"a": {}}, "unknown-type", None),
        ("data.azurerm_prob", {"a": {}}, "unknown-type", None),
        ("provider.random", [{}], "unknown-type", None),
        (f"{_ONE}.nme", "x", "unknown-attribute", None),
        (f"{_ONE}.alias", "x", "unknown-attribute", None),
        (f"{_ONE}.disk.sise", 1, "unknown-attribute", None),
        (f"{_ONE}.disk.lifecycle", {}, "unknown-attribute", None),
        (f"{_ONE}.timeouts.update", "1h", "unknown-attribute", None),
        (f"{_ONE}.registries.0.password", "x", "unknown-attribute", None),
        ("provider.azurerm.0.features.key_vault", {}, "unknown-attribute", None),
        ("resource.terraform_data.marker.inputs", 1, "unknown-attribute", None),
        # Missing ones.
        (f"{_ONE}.name", _MISSING, "missing-attribute", None),
        (f"{_ONE}.name", None, "missing-attribute", None),
        (f"{_ONE}.listener.1.port", _MISSING, "missing-attribute", f"{_ONE}.listener[1].port"),
        (f"{_ONE}.registries.0.user", _MISSING, "missing-attribute", f"{_ONE}.registries[0].user"),
        ("data.azurerm_probe.found.id", _MISSING, "missing-attribute", None),
        # Set by Azure alone.
        (f"{_ONE}.endpoint", "x", "computed-attribute", None),
        (f"{_ONE}.id", "x", "computed-attribute", None),
        (f"{_ONE}.identity.0.principal_id", "${x}", "computed-attribute", None),
        # Wrong types.
        (f"{_ONE}.name", 1, "wrong-type", None),
        (f"{_ONE}.name", True, "wrong-type", None),
        (f"{_ONE}.name", ["x"], "wrong-type", None),
        (f"{_ONE}.size", "1", "wrong-type", None),
        (f"{_ONE}.size", True, "wrong-type", None),
        (f"{_ONE}.size", "1${x}", "wrong-type", None),
        (f"{_ONE}.enabled", 1, "wrong-type", None),
        (f"{_ONE}.enabled", "true", "wrong-type", None),
        (f"{_ONE}.zones", "1", "wrong-type", None),
        (f"{_ONE}.zones", {"1": "1"}, "wrong-type", None),
        (f"{_ONE}.zones.0", 1, "wrong-type", f"{_ONE}.zones[0]"),
        (f"{_ONE}.zones.0", None, "wrong-type", f"{_ONE}.zones[0]"),
        (f"{_ONE}.ports", ["80"], "wrong-type", f"{_ONE}.ports[0]"),
        (f"{_ONE}.labels", ["a"], "wrong-type", None),
        (f"{_ONE}.labels.a", 1, "wrong-type", None),
        (f"{_ONE}.registries", {"server": "s"}, "wrong-type", None),
        (f"{_ONE}.registries.0", "s", "wrong-type", f"{_ONE}.registries[0]"),
        (f"{_ONE}.registries.0.server", 1, "wrong-type", f"{_ONE}.registries[0].server"),
        (f"{_ONE}.disk", "${x}", "wrong-type", None),
        (f"{_ONE}.listener.0", 80, "wrong-type", f"{_ONE}.listener[0]"),
        (f"{_ONE}.timeouts", "1h", "wrong-type", None),
        # Documents of another shape.
        ("resource", [], "wrong-type", None),
        ("resource.azurerm_probe", [], "wrong-type", None),
        (_ONE, [], "wrong-type", None),
        ("provider", [], "wrong-type", None),
        ("provider.azurerm", "x", "wrong-type", None),
        # Too many blocks, or too few.
        (f"{_ONE}.disk", _MISSING, "block-count", None),
        (f"{_ONE}.disk", [], "block-count", None),
        (f"{_ONE}.disk", [{"size_gb": 1}] * 2, "block-count", None),
        (f"{_ONE}.listener", _MISSING, "block-count", None),
        (f"{_ONE}.listener", [], "block-count", None),
        (f"{_ONE}.identity", [{"type": "a"}] * 2, "block-count", None),
        (f"{_ONE}.probe", [{"path": "/"}] * 3, "block-count", None),
        (f"{_ONE}.timeouts", [{}, {}], "block-count", None),
        ("provider.azurerm.0.features", [{}, {}], "block-count", None),
    ],
)
def test_a_fault_is_found_and_nothing_else(
    facts: Facts, path: str, value: Any, id_: str, at: str | None
) -> None:
    document = copy.deepcopy(_GOOD)
    *way, last = path.split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is _MISSING:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    findings = list(validate(document, facts))
    assert [finding.id for finding in findings] == [id_]
    # In a path that goes through a list, this test writes `.0.` where a finding says `[0].`.
    wanted = at or path.replace(".0.", "[0].")
    assert findings[0].path == wanted
    assert SAID[id_] in findings[0].message
    assert findings[0].hint or id_ == "unknown-attribute"


def test_a_finding_says_what_to_write_instead(facts: Facts) -> None:
    document = {"resource": {"azurerm_probe": {"one": {"nmae": "x"}}}}
    unknown = next(iter(validate(document, facts)))
    assert unknown.hint == "did you mean `name`?"
    document = {"resource": {"azurerm_probe": {"one": {"listener": [], "disk": [{}, {}]}}}}
    messages = {finding.path: finding.message for finding in validate(document, facts)}
    assert messages[f"{_ONE}.listener"] == "there are 0 of this block, where at least 1 may stand"
    assert messages[f"{_ONE}.disk"] == "there are 2 of this block, where exactly 1 may stand"


def test_the_kept_facts_are_used_where_none_are_given() -> None:
    document = {
        "resource": {
            "azurerm_linux_virtual_machine_scale_set": {
                "nodes": {
                    "name": "n",
                    "location": "westeurope",
                    "resource_group_name": "g",
                    "sku": "Standard_ND96isr_H100_v5",
                    "instances": 2,
                    "admin_username": "fairway",
                    "enable_accelerated_networking": True,
                    "os_disk": {"caching": "ReadOnly", "storage_account_type": "Premium_LRS"},
                    "network_interface": [{"name": "n", "ip_configuration": [{"name": "ip"}]}],
                }
            }
        }
    }
    findings = list(validate(json.loads(json.dumps(document))))
    assert [finding.id for finding in findings] == ["unknown-attribute"]


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("8.8.8.8", True),
        ("8.8.8.0/30", True),
        ("${azurerm_public_ip.nat.ip_address}", True),
        ("8.8.8.8/32", False),
        ("8.8.8.8/31", False),
        ("${azurerm_public_ip.nat.ip_address}/32", False),
    ],
)
def test_batch_and_storage_accounts_take_addresses_as_the_provider_does(
    address: str, taken: bool
) -> None:
    rule = {"default_action": "Deny", "ip_rule": [{"ip_range": address}]}
    account = {"name": "b", "location": "l", "resource_group_name": "g"}
    batch = {**account, "network_profile": {"account_access": rule}}
    storage = {
        **account,
        "account_tier": "Standard",
        "account_replication_type": "LRS",
        "network_rules": {"default_action": "Deny", "ip_rules": [address]},
    }
    for type_, arguments in (
        ("azurerm_batch_account", batch),
        ("azurerm_storage_account", storage),
    ):
        findings = list(validate({"resource": {type_: {"one": arguments}}}))
        assert [each.id for each in findings] == ([] if taken else ["wrong-address"])
