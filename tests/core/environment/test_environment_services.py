"""The sections for services, monitoring, budget and state: accepted and refused settings."""

from pathlib import Path

import pytest
from environment_files import KEY, SMALLEST, load

from fairway_core.documents import FieldError
from fairway_core.environment import AzurermState, Environment, LocalState
from fairway_core.environment.services import budget_contacts
from fairway_core.fields import days_of
from fairway_core.findings import UserError

REMOTE = "state: {backend: azurerm, resource_group: tfstate, storage_account: contosotfstate"


def _load(tmp_path: Path, more: str = "") -> Environment:
    return load(tmp_path, f'{SMALLEST}access: {{ssh_keys: ["{KEY}"]}}\n{more}\n')


def test_services_are_absent_unless_requested(tmp_path: Path) -> None:
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


def test_storage_containers_expire_in_days_and_own_key_implies_vault(tmp_path: Path) -> None:
    more = "storage: {containers: {datasets: {}, outputs: {expire: 90d}, code: {expire: 48h}}}"
    containers = _load(tmp_path, more).storage.containers
    expire = {name: each.expire for name, each in containers.items()}
    assert expire == {"datasets": None, "outputs": 90, "code": 2}
    assert _load(tmp_path, "storage: {customer_managed_key: true}").has_vault
    assert _load(tmp_path, "vault: {}").has_vault


@pytest.mark.parametrize(
    ("more", "sku", "days"),
    [
        ("registry: {}", "Premium", 30),
        ("registry: {retention: 7d}", "Premium", 7),
        ("network: {private_endpoints: false}\nregistry: {sku: Basic}", "Basic", None),
    ],
)
def test_registry_is_premium_with_retention_unless_basic_is_chosen(
    tmp_path: Path, more: str, sku: str, days: int | None
) -> None:
    registry = _load(tmp_path, more).registry
    assert registry is not None
    assert (registry.sku, registry.retention_days) == (sku, days)


def test_budget_contacts_prefer_its_own_emails_to_those_of_monitoring(tmp_path: Path) -> None:
    for more, told in (("", "a@example.com"), (", emails: [b@example.com]", "b@example.com")):
        watched = "monitoring: {emails: [a@example.com]}\n"
        environment = _load(tmp_path, f"{watched}budget: {{monthly: 50000{more}}}")
        assert environment.budget is not None
        assert environment.budget.alerts == (50, 80, 100)
        assert budget_contacts(environment.budget, environment.monitoring) == (told,)


def test_state_in_azurerm_has_default_container(tmp_path: Path) -> None:
    state = _load(tmp_path, REMOTE + "}").state
    assert isinstance(state, AzurermState)
    assert (state.container, state.public_access) == ("tfstate", False)


_IN_GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lake"
ACCOUNT = f"{_IN_GROUP}/providers/Microsoft.Storage/storageAccounts/contosolake"
LAKE = f"storage: {{existing: {ACCOUNT}"


def test_storage_existing_account_has_endpoint_only_if_requested(tmp_path: Path) -> None:
    storage = _load(tmp_path, LAKE + "}").storage
    assert storage.existing == ACCOUNT
    assert list(storage.containers) == ["datasets", "outputs", "code"]
    assert not storage.has_endpoint
    assert _load(tmp_path, LAKE + ", private_endpoint: true}").storage.has_endpoint
    assert _load(tmp_path, "").storage.has_endpoint


def test_storage_existing_account_needs_no_blob_zone_in_dns_zones(tmp_path: Path) -> None:
    network = "network: {dns: {zones: {}}}\n"
    assert _load(tmp_path, network + LAKE + "}").network.dns.zones == {}
    with pytest.raises(UserError, match="no zone for blob"):
        _load(tmp_path, network)


@pytest.mark.parametrize("value", [True, 0, -1, 1.5, "1.5d", "d", None, []])
def test_days_refuse_values_that_are_not_whole_and_positive(value: object) -> None:
    with pytest.raises(FieldError):
        days_of(value)


def test_days_accept_numbers_and_durations() -> None:
    assert days_of(90) == days_of("90d") == days_of("2160h") == 90
