"""The validator finds each kind of fault in an otherwise valid document."""

import copy
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
                "ports": [80],
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


def test_validator_accepts_a_valid_document(facts: Facts) -> None:
    assert list(validate(_GOOD, facts)) == []
    assert list(validate({}, facts)) == []


_ONE = "resource.azurerm_probe.one"
_MISSING = object()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        # Unknown names.
        ("resource.azurerm_prob", {"a": {}}),
        ("data.azurerm_prob", {"a": {}}),
        ("provider.random", [{}]),
        (f"{_ONE}.nme", "x"),
        (f"{_ONE}.alias", "x"),
        (f"{_ONE}.disk.sise", 1),
        (f"{_ONE}.disk.lifecycle", {}),
        (f"{_ONE}.timeouts.update", "1h"),
        (f"{_ONE}.registries.0.password", "x"),
        ("provider.azurerm.0.features.key_vault", {}),
        ("resource.terraform_data.marker.inputs", 1),
        # Missing names.
        (f"{_ONE}.name", _MISSING),
        (f"{_ONE}.name", None),
        (f"{_ONE}.listener.1.port", _MISSING),
        (f"{_ONE}.registries.0.user", _MISSING),
        ("data.azurerm_probe.found.id", _MISSING),
        # Set by Azure alone.
        (f"{_ONE}.endpoint", "x"),
        (f"{_ONE}.id", "x"),
        (f"{_ONE}.identity.0.principal_id", "${x}"),
        # Wrong types.
        (f"{_ONE}.name", 1),
        (f"{_ONE}.name", ["x"]),
        (f"{_ONE}.size", "1"),
        (f"{_ONE}.size", True),
        (f"{_ONE}.size", "1${x}"),
        (f"{_ONE}.enabled", 1),
        (f"{_ONE}.zones", "1"),
        (f"{_ONE}.zones.0", None),
        (f"{_ONE}.ports.0", "80"),
        (f"{_ONE}.labels", ["a"]),
        (f"{_ONE}.labels.a", 1),
        (f"{_ONE}.registries", {"server": "s"}),
        (f"{_ONE}.registries.0", "s"),
        (f"{_ONE}.registries.0.server", 1),
        (f"{_ONE}.disk", "${x}"),
        (f"{_ONE}.listener.0", 80),
        # Documents of another shape.
        ("resource", []),
        ("resource.azurerm_probe", []),
        (_ONE, []),
        ("provider.azurerm", "x"),
        # Too many blocks, or too few.
        (f"{_ONE}.disk", _MISSING),
        (f"{_ONE}.disk", []),
        (f"{_ONE}.disk", [{"size_gb": 1}] * 2),
        (f"{_ONE}.listener", []),
        (f"{_ONE}.identity", [{"type": "a"}] * 2),
        (f"{_ONE}.probe", [{"path": "/"}] * 3),
        (f"{_ONE}.timeouts", [{}, {}]),
        ("provider.azurerm.0.features", [{}, {}]),
    ],
)
def test_validator_reports_exactly_the_one_fault(facts: Facts, path: str, value: Any) -> None:
    document = copy.deepcopy(_GOOD)
    *way, last = path.split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is _MISSING:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    (fault,) = validate(document, facts)
    # An extra or missing name is reported at its parent.
    assert fault.startswith((f"{path}: ", f"{'.'.join(way)}: "))
    assert last in fault


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
def test_validator_checks_addresses_of_batch_and_storage_accounts(
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
        assert (not list(validate({"resource": {type_: {"one": arguments}}}))) is taken
