"""Data losses: the plan's change of one resource, and the message about it."""

from typing import Any

import pytest

from fairway_core.checks import check_plan


def _resource(type_: str, before: Any, after: Any, actions: str, **more: Any) -> dict[str, Any]:
    change = {"actions": actions.split(), "before": before, "after": after, **more}
    return {"address": f"{type_}.x", "type": type_, "change": change}


def _told(type_: str, before: Any, after: Any, actions: str = "update", **more: Any) -> str:
    plan = {"resource_changes": [_resource(type_, before, after, actions, **more)]}
    found = [one for one in check_plan(plan) if one.id == "data-loss"]
    assert len(found) < 2
    return found[0].message if found else ""


IMMUTABLE = "azurerm_storage_container_immutability_policy"
ACCOUNT, VAULT = "azurerm_storage_account", "azurerm_recovery_services_vault"
BACKED_UP, REGISTRY = "azurerm_backup_protected_vm", "azurerm_container_registry"
VOLUME, LOGS = "azurerm_netapp_volume", "azurerm_log_analytics_workspace"
BACKUPS, LOCK = "azurerm_backup_policy_vm", "azurerm_management_lock"
LOCKED = {"state": "Locked", "period_since_creation_in_days": 9}
UNLOCKED = {**LOCKED, "state": "Unlocked"}
LOCKS_LESS = "would weaken the lock: immutability_policy.state"


@pytest.mark.parametrize(
    ("type_", "path", "old", "new", "said"),
    [
        ("azurerm_storage_share", "quota", 8, 4, "would shrink: quota 8 → 4 GiB"),
        ("azurerm_storage_share", "quota", 4, 8, ""),
        (VOLUME, "storage_quota_in_gb", 8, 4, "would shrink: storage_quota_in_gb 8 → 4 GiB"),
        (VOLUME, "storage_quota_in_gb", 4, 8, ""),
        ("azurerm_netapp_pool", "size_in_tb", 8, 4, "would shrink: size_in_tb 8 → 4 TiB"),
        ("azurerm_netapp_pool", "size_in_tb", 4, 8, ""),
        (IMMUTABLE, "immutability_period_in_days", 90, 30, "immutability_period_in_days 90 → 30"),
        (IMMUTABLE, "locked", True, False, "turn off locked"),
        (ACCOUNT, "immutability_policy", [LOCKED], [UNLOCKED], f"{LOCKS_LESS} Locked → Unlocked"),
        (ACCOUNT, "immutability_policy", [UNLOCKED], [], f"9 → 0; {LOCKS_LESS} Unlocked → none"),
        (VAULT, "immutability", "Unlocked", "Disabled", "Unlocked → none"),
        (VAULT, "immutability", "Disabled", "Unlocked", ""),
        (VAULT, "cross_region_restore_enabled", True, None, "cross_region_restore_enabled"),
        (VAULT, "soft_delete_enabled", True, False, "turn off soft_delete_enabled"),
        (VAULT, "storage_mode_type", "GeoRedundant", "LocallyRedundant", "loss of a region"),
        (ACCOUNT, "blob_properties.versioning_enabled", True, False, "s.versioning_enabled"),
        (ACCOUNT, "blob_properties.delete_retention_policy", [{"days": 14}], [], "days 14 → 0"),
        (ACCOUNT, "blob_properties.container_delete_retention_policy.days", 14, 7, "days 14 → 7"),
        (ACCOUNT, "blob_properties.delete_retention_policy.days", 7, 14, ""),
        (ACCOUNT, "account_replication_type", "GZRS", "ZRS", "survive the loss of a region"),
        (ACCOUNT, "account_replication_type", "ZRS", "GRS", "no longer survive the loss of a zone"),
        (ACCOUNT, "account_replication_type", "ZRS", "GZRS", ""),
        (BACKUPS, "retention_daily.count", 30, 7, "count 30 → 7"),
        (LOGS, "retention_in_days", 90, 30, "90"),
        (LOCK, "lock_level", "ReadOnly", "CanNotDelete", "weaken the lock"),
        (VOLUME, "data_protection_snapshot_policy", [{"x": "/p"}], [], "no snapshots made any"),
        ("azurerm_netapp_snapshot_policy", "daily_schedule.snapshots_to_keep", 7, 2, "keep 7 → 2"),
        (REGISTRY, "georeplications", [{"a": "a"}, {"a": "b"}], [{"a": "a"}], "to fewer regions"),
        (REGISTRY, "retention_policy_in_days", 0, 7, "without a tag after 7 days, before: never"),
        (REGISTRY, "retention_policy_in_days", 7, 0, ""),
        ("azurerm_managed_disk", "storage_account_type", "Premium_ZRS", "Premium_LRS", "of a zone"),
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
def test_losses_report_changed_arguments_that_lose_data(
    type_: str, path: str, old: Any, new: Any, said: str
) -> None:
    *blocks, name = path.split(".")
    before, after = {name: old}, {name: new}
    for block in reversed(blocks):
        before, after = {block: [before]}, {block: [after]}
    found = _told(type_, before, after)
    assert said in found
    assert bool(found) == bool(said)
    assert _told(type_, before, {}, after_unknown={path.partition(".")[0]: True}) == ""


DISK = {"os_disk": [{"disk_size_gb": 64}]}
LOCAL = {"os_disk": [{"diff_disk_settings": [{"option": "Local"}]}]}
ON_DISK = {"scope": "/x/disks/d", "lock_level": "CanNotDelete", "notes": "a"}
READ_ONLY = {**ON_DISK, "lock_level": "ReadOnly"}
BY_DAY = [{"retention_daily": [{"count": count}]} for count in (30, 7)]
BLOB = {"id": "/c/manifests", "source_content": "kind: Namespace"}
KEPT = {"blob_properties": [{"versioning_enabled": True}], "account_replication_type": "ZRS"}
KEPT |= {"quota": 9, "locked": True}
AGAIN = "delete create"


@pytest.mark.parametrize(
    ("type_", "before", "after", "actions", "said"),
    [
        ("azurerm_resource_group", {"id": "x"}, None, "delete", "with it what it holds"),
        (BACKED_UP, {"id": "x"}, None, "delete", "with it what it holds"),
        ("azurerm_netapp_pool", {"id": "x"}, None, "delete", "with it what it holds"),
        (LOGS, {"id": "x"}, None, "delete", "with it what it holds"),
        ("azurerm_storage_blob", {"id": "/c/b"}, None, "delete", "with it what it holds"),
        # Terraform uploads it again.
        ("azurerm_storage_blob", BLOB, {}, AGAIN, ""),
        ("azurerm_batch_account", {"name": "a"}, None, "delete", "its pools, jobs and schedules"),
        ("azurerm_batch_account", {"name": "a"}, None, "delete", "no job can be submitted"),
        ("azurerm_linux_virtual_machine", DISK, None, "delete", "its own disk"),
        ("azurerm_linux_virtual_machine", LOCAL, None, "delete", ""),
        (
            IMMUTABLE,
            {"storage_container_resource_manager_id": "/a/containers/results"},
            *(None, "delete", "anybody from overwriting or deleting the blobs of `results`"),
        ),
        (LOCK, ON_DISK, None, "delete", "nothing keeps anybody from deleting `d`"),
        # The provider updates no lock in place.
        (LOCK, ON_DISK, {**ON_DISK, "notes": "b"}, AGAIN, ""),
        (LOCK, ON_DISK, READ_ONLY, AGAIN, ""),
        (LOCK, ON_DISK, {**ON_DISK, "scope": "/e"}, AGAIN, "keeps anybody from deleting `d`"),
        (LOCK, READ_ONLY, ON_DISK, "create delete", "lock_level ReadOnly → CanNotDelete"),
        (BACKUPS, *BY_DAY, AGAIN, "count 30 → 7"),
        (BACKUPS, BY_DAY[0], None, "delete", ""),
        (ACCOUNT, KEPT, None, "forget", ""),
        ("azurerm_storage_share", KEPT, None, "forget", ""),
        (IMMUTABLE, KEPT, None, "forget", ""),
    ],
)
def test_losses_report_contents_deleted_with_a_resource(
    type_: str, before: Any, after: Any, actions: str, said: str
) -> None:
    found = _told(type_, before, after, actions)
    assert said in found
    assert bool(found) == bool(said)


def test_losses_omit_a_lock_deleted_together_with_its_resource() -> None:
    disk = _resource("azurerm_managed_disk", {"id": "/x/disks/d"}, None, "delete")
    lock = _resource(LOCK, {"scope": "/x/disks/d"}, None, "delete")
    found = check_plan({"resource_changes": [lock, disk]})
    assert [one.path for one in found] == ["azurerm_managed_disk.x"]


MODIFIED, CREATED = "modification", "creation"


def _life(*rules: tuple[str, int], since: str = MODIFIED, **more: Any) -> dict[str, Any]:
    """Returns a policy that deletes blobs with a prefix after the given number of days."""
    made = [
        {
            "name": f"rule-{number}",
            "enabled": True,
            "filters": [{"prefix_match": [prefix] if prefix else [], **more.get("filters", {})}],
            "actions": [{"base_blob": [{f"delete_after_days_since_{since}_greater_than": days}]}],
        }
        for number, (prefix, days) in enumerate(rules)
    ]
    return {"storage_account_id": more.get("account", "/a"), "rule": made}


def _of(types: str, **tag: str) -> dict[str, Any]:
    tags = {"match_blob_index_tag": [{"operation": "==", **tag}] if tag else []}
    filters = {"blob_types": types.split(), **tags}
    return _life(("", 1), since=CREATED, filters=filters)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (("outputs/", 3650), ("outputs/", 1), "after 1 days, before: after 3650 days"),
        ((), ("datasets/", 30), "blobs of `datasets/` after 30 days, before: never"),
        (("outputs/", 90), ("", 90), "blobs of `*` after 90 days, before: never"),
        (("", 30), ("outputs/", 60), ""),
        (("outputs/", 30), ("outputs/", 90), ""),
        (("outputs/", 30), ("outputs/", -1), ""),
        (("outputs/", 30), (), ""),
        (_of("blockBlob"), _of("blockBlob appendBlob"), "never"),
        (_of("blockBlob appendBlob"), _of("blockBlob"), ""),
        (_of("", name="keep", value="no"), _of(""), "after 1 days, before: never"),
    ],
)
def test_losses_report_a_lifecycle_policy_that_deletes_sooner(
    before: Any, after: Any, said: str
) -> None:
    old, new = (
        each if isinstance(each, dict) else _life(*[each] * bool(each)) for each in (before, after)
    )
    type_ = "azurerm_storage_management_policy"
    found = _told(type_, old, new)
    assert said in found
    assert bool(found) == bool(said)
    # A recreated policy is compared with the old one of the same account.
    assert _told(type_, old, new, AGAIN) == found
    assert _told(type_, old, old, AGAIN) == ""
    # The policy is compared even if its account is not named.
    assert _told(type_, {"rule": old["rule"]}, {"rule": new["rule"]}) == found


def test_losses_omit_lifecycle_policy_of_new_container_or_account() -> None:
    policy, container = "azurerm_storage_management_policy", "azurerm_storage_container"
    update = _resource(policy, _life(), _life(("new/", 30)), "update")
    for account, ids in (("/a", []), ("/another", ["data-loss"])):
        made = {"storage_account_id": account, "name": "new"}
        plan = {"resource_changes": [update, _resource(container, None, made, "create")]}
        assert [one.id for one in check_plan(plan)] == ids
    created = {"rule": _life(("outputs/", 1))["rule"]}
    unknown = {"after_unknown": {"storage_account_id": True}}
    assert _told(policy, None, created, "create", **unknown) == ""
    moved = _told(policy, _life(("", 90)), _life(("", 1), account="/b"), AGAIN)
    assert "before: never" in moved
