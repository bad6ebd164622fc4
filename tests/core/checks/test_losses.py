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


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (
            POLICY,
            {"immutability_period_in_days": 90},
            {"immutability_period_in_days": 30},
            "would keep less: immutability_period_in_days 90 → 30",
        ),
        (POLICY, {"locked": True}, {"locked": False}, "turn off locked"),
        (
            ACCOUNT,
            {"immutability_policy": [{"state": "Locked", "period_since_creation_in_days": 9}]},
            {"immutability_policy": [{"state": "Unlocked", "period_since_creation_in_days": 9}]},
            "would lock less than before: immutability_policy.state Locked → Unlocked",
        ),
        (
            ACCOUNT,
            {"immutability_policy": [{"state": "Unlocked", "period_since_creation_in_days": 9}]},
            {"immutability_policy": []},
            "9 → 0; would lock less than before: immutability_policy.state Unlocked → none",
        ),
        (VAULT, {"immutability": "Unlocked"}, {"immutability": "Disabled"}, "Unlocked → none"),
        (VAULT, {"immutability": "Disabled"}, {"immutability": "Unlocked"}, ""),
        (VAULT, {"cross_region_restore_enabled": True}, {}, "cross_region_restore_enabled"),
    ],
)
def test_losses_report_weakened_immutability(
    type_: str, before: Any, after: Any, said: str
) -> None:
    found = _told(type_, before, after)
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


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (
            "azurerm_netapp_volume",
            {"data_protection_snapshot_policy": [{"snapshot_policy_id": "/p"}]},
            {"data_protection_snapshot_policy": []},
            "would have no snapshots made any more",
        ),
        (
            "azurerm_netapp_snapshot_policy",
            {"enabled": True, "daily_schedule": [{"snapshots_to_keep": 7}]},
            {"enabled": True, "daily_schedule": [{"snapshots_to_keep": 2}]},
            "daily_schedule.snapshots_to_keep 7 → 2",
        ),
        (
            "azurerm_container_registry",
            {"georeplications": [{"location": "a"}, {"location": "b"}]},
            {"georeplications": [{"location": "a"}]},
            "copied to fewer regions",
        ),
        (
            "azurerm_container_registry",
            {"retention_policy_in_days": 0},
            {"retention_policy_in_days": 7},
            "would delete images without a tag after 7 days, before: never",
        ),
        (
            "azurerm_container_registry",
            {"retention_policy_in_days": 7},
            {"retention_policy_in_days": 0},
            "",
        ),
        (
            "azurerm_managed_disk",
            {"storage_account_type": "Premium_ZRS"},
            {"storage_account_type": "Premium_LRS"},
            "no longer survive the loss of a zone",
        ),
    ],
)
def test_fewer_copies(type_: str, before: Any, after: Any, said: str) -> None:
    found = _told(type_, before, after)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"exclude_disk_luns": []}, {"exclude_disk_luns": [0]}, "exclude disks"),
        ({"exclude_disk_luns": [0]}, {"exclude_disk_luns": []}, ""),
        ({"include_disk_luns": []}, {"include_disk_luns": [0]}, "exclude disks"),
        ({"include_disk_luns": [0, 1]}, {"include_disk_luns": [0]}, "exclude disks"),
        ({"include_disk_luns": [0]}, {"include_disk_luns": []}, ""),
        (
            {"protection_state": "Protected"},
            {"protection_state": "BackupsSuspended"},
            "no longer be backed up",
        ),
        ({"backup_policy_id": "/p"}, {"backup_policy_id": None}, "no longer be backed up"),
        ({"backup_policy_id": "/p"}, {"backup_policy_id": "/q"}, ""),
    ],
)
def test_losses_report_reduced_backup(before: Any, after: Any, said: str) -> None:
    found = _told("azurerm_backup_protected_vm", before, after)
    assert said in found
    assert bool(found) == bool(said)


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
