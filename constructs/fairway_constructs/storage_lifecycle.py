"""What Azure deletes from a storage account by itself: expired blobs and old versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.storage_management_policy import (
    Rule,
    RuleActions,
    RuleActionsBaseBlob,
    RuleActionsSnapshot,
    RuleActionsVersion,
    RuleFilters,
    StorageManagementPolicy,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct

_BLOB_TYPES = ("blockBlob", "appendBlob")


def storage_lifecycle(
    scope: Construct,
    *,
    account_id: str,
    expire_days: Mapping[str, int],
    version_days: int,
) -> StorageManagementPolicy:
    """Deletes blobs that nobody changed for `expire_days` of their container.

    What was overwritten or deleted is kept as a version, which goes after `version_days`.
    Soft deletion then holds everything once more, for as long as the account says.

    >>> storage_lifecycle(stack, account_id=account.id, expire_days={"outputs": 90},
    ...                   version_days=14)  # doctest: +SKIP
    """
    rules = [_old_versions(version_days)]
    rules += [_expired(container, days) for container, days in expire_days.items()]
    return StorageManagementPolicy(scope, "lifecycle", storage_account_id=account_id, rule=rules)


def _old_versions(days: int) -> Rule:
    return Rule(
        name="old-versions",
        enabled=True,
        filters=RuleFilters(blob_types=_BLOB_TYPES),
        actions=RuleActions(
            snapshot=RuleActionsSnapshot(delete_after_days_since_creation_greater_than=days),
            version=RuleActionsVersion(delete_after_days_since_creation=days),
        ),
    )


def _expired(container: str, days: int) -> Rule:
    return Rule(
        name=f"expire-{container}",
        enabled=True,
        filters=RuleFilters(blob_types=_BLOB_TYPES, prefix_match=[f"{container}/"]),
        actions=RuleActions(
            base_blob=RuleActionsBaseBlob(delete_after_days_since_modification_greater_than=days)
        ),
    )
