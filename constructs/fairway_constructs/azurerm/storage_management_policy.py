"""Resource azurerm_storage_management_policy of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class RuleActionsBaseBlob(Block):
    """The block `rule.actions.base_blob`."""

    auto_tier_to_hot_from_cool_enabled: bool | None = None
    delete_after_days_since_creation_greater_than: float | None = None
    delete_after_days_since_last_access_time_greater_than: float | None = None
    delete_after_days_since_modification_greater_than: float | None = None
    tier_to_archive_after_days_since_creation_greater_than: float | None = None
    tier_to_archive_after_days_since_last_access_time_greater_than: float | None = None
    tier_to_archive_after_days_since_last_tier_change_greater_than: float | None = None
    tier_to_archive_after_days_since_modification_greater_than: float | None = None
    tier_to_cold_after_days_since_creation_greater_than: float | None = None
    tier_to_cold_after_days_since_last_access_time_greater_than: float | None = None
    tier_to_cold_after_days_since_modification_greater_than: float | None = None
    tier_to_cool_after_days_since_creation_greater_than: float | None = None
    tier_to_cool_after_days_since_last_access_time_greater_than: float | None = None
    tier_to_cool_after_days_since_modification_greater_than: float | None = None


class RuleActionsSnapshot(Block):
    """The block `rule.actions.snapshot`."""

    change_tier_to_archive_after_days_since_creation: float | None = None
    change_tier_to_cool_after_days_since_creation: float | None = None
    delete_after_days_since_creation_greater_than: float | None = None
    tier_to_archive_after_days_since_last_tier_change_greater_than: float | None = None
    tier_to_cold_after_days_since_creation_greater_than: float | None = None


class RuleActionsVersion(Block):
    """The block `rule.actions.version`."""

    change_tier_to_archive_after_days_since_creation: float | None = None
    change_tier_to_cool_after_days_since_creation: float | None = None
    delete_after_days_since_creation: float | None = None
    tier_to_archive_after_days_since_last_tier_change_greater_than: float | None = None
    tier_to_cold_after_days_since_creation_greater_than: float | None = None


class RuleActions(Block):
    """The block `rule.actions`."""

    base_blob: RuleActionsBaseBlob | None = None
    snapshot: RuleActionsSnapshot | None = None
    version: RuleActionsVersion | None = None


class RuleFiltersMatchBlobIndexTag(Block):
    """The block `rule.filters.match_blob_index_tag`."""

    name: str
    value: str
    operation: str | None = None


class RuleFilters(Block):
    """The block `rule.filters`."""

    blob_types: Sequence[str]
    prefix_match: Sequence[str] | None = None
    match_blob_index_tag: Sequence[RuleFiltersMatchBlobIndexTag] | None = None


class Rule(Block):
    """The block `rule`."""

    enabled: bool
    name: str
    actions: RuleActions
    filters: RuleFilters


class StorageManagementPolicy(Resource):
    """The resource azurerm_storage_management_policy."""

    TYPE = "azurerm_storage_management_policy"

    id = StringAttribute()
    storage_account_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        storage_account_id: str,
        rule: Sequence[Rule] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "storage_account_id": storage_account_id,
                "rule": rule,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
