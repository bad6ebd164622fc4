"""In which ways a change loses data: what a plan says of one resource, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from fairway_core.checks import check_plan


def _told(type_: str, before: Any, after: Any, actions: str = "update", **more: Any) -> str:
    change = {"actions": actions.split(), "before": before, "after": after, **more}
    resource = {"address": f"{type_}.x", "type": type_, "change": change}
    found = [one for one in check_plan({"resource_changes": [resource]}) if one.id == "data-loss"]
    assert len(found) < 2
    return found[0].message if found else ""


@pytest.mark.parametrize(
    ("type_", "path", "unit"),
    [
        ("azurerm_storage_share", "quota", "GiB"),
        ("azurerm_netapp_volume", "storage_quota_in_gb", "GiB"),
        ("azurerm_netapp_pool", "size_in_tb", "TiB"),
    ],
)
def test_losses_report_values_that_shrink(type_: str, path: str, unit: str) -> None:
    smaller = _told(type_, {path: 8}, {path: 4})
    assert f"would shrink: {path} 8 → 4 {unit}" in smaller
    assert _told(type_, {path: 4}, {path: 8}) == ""
    assert _told(type_, {path: 4}, {}, after_unknown={path: True}) == ""


POLICY = "azurerm_storage_container_immutability_policy"
ACCOUNT, VAULT = "azurerm_storage_account", "azurerm_recovery_services_vault"


def _at(path: str, value: Any) -> dict[str, Any]:
    """A resource with one argument, which may lie in blocks."""
    *blocks, name = path.split(".")
    found = {name: value}
    for block in reversed(blocks):
        found = {block: [found]}
    return found


LOCKED = {"state": "Locked", "period_since_creation_in_days": 9}
UNLOCKED = {**LOCKED, "state": "Unlocked"}
LOCKS_LESS = "would weaken the lock: immutability_policy.state"
BACKED_UP, REGISTRY = "azurerm_backup_protected_vm", "azurerm_container_registry"
SNAPSHOTS = "data_protection_snapshot_policy"


@pytest.mark.parametrize(
    ("type_", "path", "old", "new", "said"),
    [
        (
            POLICY,
            "immutability_period_in_days",
            90,
            30,
            "keep less: immutability_period_in_days 90 → 30",
        ),
        (POLICY, "locked", True, False, "turn off locked"),
        (ACCOUNT, "immutability_policy", [LOCKED], [UNLOCKED], f"{LOCKS_LESS} Locked → Unlocked"),
        (ACCOUNT, "immutability_policy", [UNLOCKED], [], f"9 → 0; {LOCKS_LESS} Unlocked → none"),
        (VAULT, "immutability", "Unlocked", "Disabled", "Unlocked → none"),
        (VAULT, "immutability", "Disabled", "Unlocked", ""),
        (VAULT, "cross_region_restore_enabled", True, None, "cross_region_restore_enabled"),
        (VAULT, "soft_delete_enabled", True, False, "turn off soft_delete_enabled"),
        (
            VAULT,
            "storage_mode_type",
            "GeoRedundant",
            "LocallyRedundant",
            "survive the loss of a region",
        ),
        (
            ACCOUNT,
            "blob_properties.versioning_enabled",
            True,
            False,
            "blob_properties.versioning_enabled",
        ),
        (ACCOUNT, "blob_properties.delete_retention_policy", [{"days": 14}], [], "days 14 → 0"),
        (ACCOUNT, "blob_properties.container_delete_retention_policy.days", 14, 7, "days 14 → 7"),
        (ACCOUNT, "blob_properties.delete_retention_policy.days", 7, 14, ""),
        (
            ACCOUNT,
            "account_replication_type",
            "GZRS",
            "ZRS",
            "no longer survive the loss of a region",
        ),
        (ACCOUNT, "account_replication_type", "ZRS", "GRS", "no longer survive the loss of a zone"),
        (ACCOUNT, "account_replication_type", "ZRS", "GZRS", ""),
        ("azurerm_backup_policy_vm", "retention_daily.count", 30, 7, "count 30 → 7"),
        ("azurerm_log_analytics_workspace", "retention_in_days", 90, 30, "90"),
        ("azurerm_management_lock", "lock_level", "ReadOnly", "CanNotDelete", "weaken the lock"),
        (
            "azurerm_netapp_volume",
            SNAPSHOTS,
            [{"x": "/p"}],
            [],
            "would have no snapshots made any more",
        ),
        (
            "azurerm_netapp_snapshot_policy",
            "daily_schedule.snapshots_to_keep",
            7,
            2,
            "to_keep 7 → 2",
        ),
        (
            REGISTRY,
            "georeplications",
            [{"a": "a"}, {"a": "b"}],
            [{"a": "a"}],
            "copied to fewer regions",
        ),
        (
            REGISTRY,
            "retention_policy_in_days",
            0,
            7,
            "images without a tag after 7 days, before: never",
        ),
        (REGISTRY, "retention_policy_in_days", 7, 0, ""),
        (
            "azurerm_managed_disk",
            "storage_account_type",
            "Premium_ZRS",
            "Premium_LRS",
            "loss of a zone",
        ),
        (BACKED_UP, "exclude_disk_luns", [], [0], "exclude disks"),
        (BACKED_UP, "exclude_disk_luns", [0], [], ""),
        (BACKED_UP, "include_disk_luns", [], [0], "exclude disks"),
        (BACKED_UP, "include_disk_luns", [0, 1], [0], "exclude disks"),
        (BACKED_UP, "include_disk_luns", [0], [], ""),
        (BACKED_UP, "protection_state", "Protected", "BackupsSuspended", "no longer be backed up"),
        (BACKED_UP, "protection_state", "Protected", "ProtectionStopped", "no longer be backed up"),
        (BACKED_UP, "backup_policy_id", "/p", None, "no longer be backed up"),
        (BACKED_UP, "backup_policy_id", "/p", "/q", ""),
    ],
)
def test_a_change_that_loses_data_now_or_later(
    type_: str, path: str, old: Any, new: Any, said: str
) -> None:
    found = _told(type_, _at(path, old), _at(path, new))
    assert said in found
    assert bool(found) == bool(said)


def test_an_immutability_policy_that_goes() -> None:
    of = {"storage_container_resource_manager_id": "/a/containers/results"}
    found = _told(POLICY, of, None, "delete")
    assert "keeps anybody from overwriting or deleting the blobs of `results`" in found


LOCK = {"scope": "/x/disks/d", "lock_level": "CanNotDelete", "notes": "a"}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({**LOCK, "notes": "b"}, ""),
        ({**LOCK, "lock_level": "ReadOnly"}, ""),
        ({**LOCK, "scope": "/x/disks/e"}, "nothing keeps anybody from deleting `d`"),
    ],
)
def test_a_lock_that_is_made_anew(after: Any, said: str) -> None:
    """The provider updates no lock in place."""
    found = _told("azurerm_management_lock", LOCK, after, "delete create")
    assert said in found
    assert bool(found) == bool(said)
    weaker = _told(
        "azurerm_management_lock", {**LOCK, "lock_level": "ReadOnly"}, LOCK, "create delete"
    )
    assert "lock_level ReadOnly → CanNotDelete" in weaker


def test_losses_report_less_retention_when_a_policy_is_replaced() -> None:
    before, after = ({"retention_daily": [{"count": count}]} for count in (30, 7))
    assert "count 30 → 7" in _told("azurerm_backup_policy_vm", before, after, "delete create")
    assert _told("azurerm_backup_policy_vm", before, None, "delete") == ""


@pytest.mark.parametrize("type_", [ACCOUNT, "azurerm_storage_share", POLICY])
def test_losses_of_forgotten_resources_are_not_reported(type_: str) -> None:
    before = {
        "blob_properties": [{"versioning_enabled": True}],
        "account_replication_type": "ZRS",
        "quota": 9,
        "locked": True,
    }
    assert _told(type_, before, None, "forget") == ""


def test_a_batch_account_goes_with_its_jobs() -> None:
    found = _told("azurerm_batch_account", {"name": "a"}, None, "delete")
    assert "with it its pools, jobs and schedules" in found
    assert "no job can be submitted" in found


def _rule(days: int, **filters: Any) -> dict[str, Any]:
    action = {"base_blob": [{"delete_after_days_since_creation_greater_than": days}]}
    return {"rule": [{"name": "a", "filters": [filters], "actions": [action]}]}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"blob_types": ["blockBlob"]}, {"blob_types": ["blockBlob", "appendBlob"]}, "never"),
        ({"blob_types": ["blockBlob", "appendBlob"]}, {"blob_types": ["blockBlob"]}, ""),
        (
            {"match_blob_index_tag": [{"name": "keep", "operation": "==", "value": "no"}]},
            {"match_blob_index_tag": []},
            "after 1 days, before: never",
        ),
    ],
)
def test_a_life_cycle_of_more_blobs(before: Any, after: Any, said: str) -> None:
    type_ = "azurerm_storage_management_policy"
    found = _told(type_, _rule(1, **before), _rule(1, **after))
    assert said in found
    assert bool(found) == bool(said)


def test_a_life_cycle_that_is_made_anew_is_compared_with_the_old_one() -> None:
    type_ = "azurerm_storage_management_policy"
    before, after = ({"storage_account_id": "/a", **_rule(days)} for days in (90, 1))
    found = _told(type_, before, after, "delete create")
    assert "after 1 days, before: after 90 days" in found
    assert _told(type_, before, before, "delete create") == ""
    elsewhere = {**after, "storage_account_id": "/b"}
    assert "before: never" in _told(type_, before, elsewhere, "delete create")


def test_a_blob_that_terraform_writes_itself() -> None:
    blob = {"id": "/c/manifests", "source_content": "kind: Namespace"}
    assert "with it what it holds" in _told("azurerm_storage_blob", {"id": "/c/b"}, None, "delete")
    assert _told("azurerm_storage_blob", blob, {}, "delete create") == ""
