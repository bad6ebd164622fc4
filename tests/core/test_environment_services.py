"""The sections for services, monitoring, budget and state: what is taken and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.documents import FieldError
from fairway_core.durations import days_of
from fairway_core.environment import AzurermState, Environment, LocalState, load_environment
from fairway_core.environment.monitoring import budget_contacts
from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
SMALLEST = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ["{KEY}"]}}
clusters:
  box: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
"""
REMOTE = "state: {backend: azurerm, resource_group: tfstate, storage_account: contosotfstate"


def _load(tmp_path: Path, more: str = "") -> Environment:
    file = tmp_path / "lab.yaml"
    file.write_text(SMALLEST + more + "\n")
    return load_environment(file)


def _fault(tmp_path: Path, more: str) -> Finding:
    with pytest.raises(UserError) as caught:
        _load(tmp_path, more)
    assert caught.value.exit_code == 2
    (finding,) = caught.value.findings
    return finding


def test_the_smallest_file_has_no_service_that_it_did_not_ask_for(tmp_path: Path) -> None:
    environment = _load(tmp_path)
    assert environment.state == LocalState()
    assert environment.registry is None
    assert environment.vault is None
    assert not environment.has_vault
    assert environment.monitoring is None
    assert environment.budget is None
    assert environment.network.private_endpoints
    assert not environment.storage.customer_managed_key
    assert {c.expire for c in environment.storage.containers.values()} == {None}


def test_containers_expire_in_days(tmp_path: Path) -> None:
    more = "storage: {containers: {datasets: {}, outputs: {expire: 90d}, code: {expire: 48h}}}"
    containers = _load(tmp_path, more).storage.containers
    assert {name: c.expire for name, c in containers.items()} == {
        "datasets": None,
        "outputs": 90,
        "code": 2,
    }


def test_a_key_of_ones_own_brings_a_vault(tmp_path: Path) -> None:
    assert _load(tmp_path, "storage: {customer_managed_key: true}").has_vault
    assert _load(tmp_path, "vault: {}").has_vault


def test_a_registry_is_closed_unless_it_cannot_be(tmp_path: Path) -> None:
    registry = _load(tmp_path, "registry: {}").registry
    assert registry is not None
    assert (registry.sku, registry.retention_days) == ("Premium", 30)
    registry = _load(tmp_path, "registry: {retention: 7d}").registry
    assert registry is not None
    assert registry.retention_days == 7
    more = "network: {private_endpoints: false}\nregistry: {sku: Basic}"
    registry = _load(tmp_path, more).registry
    assert registry is not None
    assert registry.retention_days is None


def test_a_budget_tells_those_who_are_named_nearest(tmp_path: Path) -> None:
    monitoring = "monitoring: {emails: [a@example.com]}\n"
    environment = _load(tmp_path, monitoring + "budget: {monthly: 50000}")
    assert environment.budget is not None
    assert environment.budget.alerts == (50, 80, 100)
    assert budget_contacts(environment.budget, environment.monitoring) == ("a@example.com",)
    environment = _load(tmp_path, monitoring + "budget: {monthly: 1, emails: [b@example.com]}")
    assert environment.budget is not None
    assert budget_contacts(environment.budget, environment.monitoring) == ("b@example.com",)


def test_a_remote_state_has_a_usual_container(tmp_path: Path) -> None:
    state = _load(tmp_path, REMOTE + "}").state
    assert isinstance(state, AzurermState)
    assert (state.container, state.public_access) == ("tfstate", False)


_IN_GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lake"
ACCOUNT = f"{_IN_GROUP}/providers/Microsoft.Storage/storageAccounts/contosolake"
LAKE = f"storage: {{existing: {ACCOUNT}"
HUB_ZONES = (
    f"{{blob: {_IN_GROUP}/providers/Microsoft.Network/privateDnsZones/"
    "privatelink.blob.core.windows.net}"
)
IMPORTS = "filesystems: {fast: {kind: lustre, tib: 48, mbps_per_tib: 250, path: /fast, %s}}"
IMPORT = f"import: datasets, service_principal: {_IN_GROUP.split('/')[2]}"


def test_an_account_that_is_there_already_has_no_endpoint_unless_asked(tmp_path: Path) -> None:
    storage = _load(tmp_path, LAKE + "}").storage
    assert storage.existing == ACCOUNT
    assert list(storage.containers) == ["datasets", "outputs", "code"]
    assert not storage.has_endpoint
    assert _load(tmp_path, LAKE + ", private_endpoint: true}").storage.has_endpoint
    assert _load(tmp_path, "").storage.has_endpoint


def test_a_network_with_zones_of_a_hub_needs_none_for_that_account(tmp_path: Path) -> None:
    network = "network: {dns: {zones: {}}}\n"
    assert _load(tmp_path, network + LAKE + "}").network.dns.zones == {}
    with pytest.raises(UserError, match="no zone for blob"):
        _load(tmp_path, network)


BAD = [
    ("storage: {existing: contosolake}", "storage.existing", "not the id of a storage account"),
    (f"storage: {{existing: {_IN_GROUP}}}", "storage.existing", "not the id of a storage account"),
    (
        f"storage: {{existing: '{ACCOUNT}/blobServices/default'}}",
        "storage.existing",
        "not the id of a storage account",
    ),
    (LAKE + ", account: mine}", "storage.account", "no effect on an account that exists"),
    (LAKE + ", replication: LRS}", "storage.replication", "no effect on an account that exists"),
    (LAKE + ", customer_managed_key: true}", "storage.customer_managed_key", "no effect on"),
    (LAKE + ", account_keys: true}", "storage.account_keys", "no effect on an account that exists"),
    (
        LAKE + ", containers: {code: {expire: 9d}}}",
        "storage.containers.code.expire",
        "one set of expiry rules",
    ),
    (
        "storage: {private_endpoint: true}",
        "storage.private_endpoint",
        "an account that Fairway makes",
    ),
    (
        "network: {private_endpoints: false}\n" + LAKE + ", private_endpoint: true}",
        "storage.private_endpoint",
        "this network has no private endpoints",
    ),
    (
        f"network: {{dns: {{zones: {HUB_ZONES}}}}}\n" + LAKE + ", private_endpoint: true}",
        "storage.private_endpoint",
        "would take over the name of `contosolake` from its present users",
    ),
    (
        LAKE + "}\n" + IMPORTS % IMPORT,
        "filesystems.fast.import",
        "Fairway creates none in an existing account",
    ),
    ("resource_group: team", "resource_group", "expected a mapping"),
    ("resource_group: {}", "resource_group.existing", "missing"),
    ("resource_group: {existing: team}", "resource_group.existing", "not the id of a resource gr"),
    (
        f"resource_group: {{existing: {_IN_GROUP}/}}",
        "resource_group.existing",
        "not the id of a resource group",
    ),
    (
        f"resource_group: {{existing: '{_IN_GROUP}\"'}}",
        "resource_group.existing",
        "not the id of a resource group",
    ),
    (
        f"resource_group: {{existing: '{_IN_GROUP}%{{x}}'}}",
        "resource_group.existing",
        "not the id of a resource group",
    ),
    ("storage: {containers: {code: {expire: 36h}}}", "storage.containers.code.expire", "whole"),
    ("storage: {containers: {code: {expire: 0d}}}", "storage.containers.code.expire", "span"),
    ("storage: {containers: {code: {expires: 9d}}}", "storage.containers.code.expires", "unknown"),
    ("storage: {customer_managed_key: sure}", "storage.customer_managed_key", "true or false"),
    ("registry: {sku: Gold}", "registry.sku", "expected one of"),
    ("registry: {sku: Standard}", "registry.sku", "open to the internet"),
    ("registry: {sku: Standard, retention: 7d}", "registry.retention", "for ever"),
    ("registry: {retention: 400d}", "registry.retention", "at most 365d"),
    ("vault: {sku: Premium}", "vault.sku", "expected one of"),
    ("monitoring: {}", "monitoring.emails", "missing"),
    ("monitoring: {emails: []}", "monitoring.emails", "at least 1"),
    ("monitoring: {emails: [team]}", "monitoring.emails.0", "not an email address"),
    ("monitoring: {emails: [a@b.de, A@b.de]}", "monitoring.emails.1", "named twice"),
    ("monitoring: {emails: [a@b.de], retention: 7d}", "monitoring.retention", "30d to 730d"),
    ("budget: {monthly: 50}", "budget", "notifies no one"),
    ("budget: {monthly: 0, emails: [a@b.de]}", "budget.monthly", "at least 1"),
    ("budget: {monthly: 9, emails: [a@b.de], currency: usd}", "budget.currency", "currency"),
    ("budget: {monthly: 9, emails: [a@b.de], alerts: []}", "budget.alerts", "at least 1"),
    ("budget: {monthly: 9, emails: [a@b.de], alerts: [80, 50]}", "budget.alerts", "rising"),
    ("budget: {monthly: 9, emails: [a@b.de], alerts: [0]}", "budget.alerts", "1 to 1000"),
    ("budget: {monthly: 9, emails: [a@b.de], alerts: [1, 2, 3, 4, 5, 6]}", "budget.alerts", "5"),
    ("state: {backend: s3}", "state.backend", "azurerm"),
    ("state: {backend: local, container: tfstate}", "state.container", "unknown key"),
    ("state: {backend: azurerm, resource_group: tfstate}", "state.storage_account", "missing"),
    (
        REMOTE.replace("contosotfstate", "Contoso") + "}",
        "state.storage_account",
        "not a valid name for",
    ),
    (
        REMOTE.replace(": tfstate,", ": tfstate.,") + "}",
        "state.resource_group",
        "not a valid name for",
    ),
    (REMOTE + ", container: tf_state}", "state.container", "not a valid name for"),
]


@pytest.mark.parametrize(("more", "path", "message"), BAD, ids=[row[0] for row in BAD])
def test_a_fault_is_shown_at_its_field(tmp_path: Path, more: str, path: str, message: str) -> None:
    finding = _fault(tmp_path, more)
    assert finding.path == path
    assert message in finding.message
    assert finding.location is not None
    assert finding.location.text == more.splitlines()[-1]


@pytest.mark.parametrize("value", [True, 0, -1, 1.5, "1.5d", "d", None, []])
def test_days_are_whole_and_more_than_none(value: object) -> None:
    with pytest.raises(FieldError):
        days_of(value)


def test_days_are_read_from_a_models_own_dump() -> None:
    assert days_of(90) == days_of("90d") == days_of("2160h")
