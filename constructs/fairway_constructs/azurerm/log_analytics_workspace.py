"""Resource azurerm_log_analytics_workspace of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class LogAnalyticsWorkspace(Resource):
    """The resource azurerm_log_analytics_workspace."""

    TYPE = "azurerm_log_analytics_workspace"

    allow_resource_only_permissions = BooleanAttribute()
    cmk_for_query_forced = BooleanAttribute()
    daily_quota_gb = NumberAttribute()
    data_collection_rule_id = StringAttribute()
    id = StringAttribute()
    immediate_data_purge_on_30_days_enabled = BooleanAttribute()
    internet_ingestion_access_type = StringAttribute()
    internet_query_access_type = StringAttribute()
    local_authentication_enabled = BooleanAttribute()
    location = StringAttribute()
    name = StringAttribute()
    primary_shared_key = StringAttribute()
    reservation_capacity_in_gb_per_day = NumberAttribute()
    resource_group_name = StringAttribute()
    retention_in_days = NumberAttribute()
    secondary_shared_key = StringAttribute()
    sku = StringAttribute()
    tags = MapAttribute()
    workspace_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        allow_resource_only_permissions: bool | None = None,
        cmk_for_query_forced: bool | None = None,
        daily_quota_gb: float | None = None,
        data_collection_rule_id: str | None = None,
        immediate_data_purge_on_30_days_enabled: bool | None = None,
        internet_ingestion_access_type: str | None = None,
        internet_query_access_type: str | None = None,
        local_authentication_enabled: bool | None = None,
        reservation_capacity_in_gb_per_day: float | None = None,
        retention_in_days: float | None = None,
        sku: str | None = None,
        tags: Mapping[str, str] | None = None,
        identity: Identity | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "allow_resource_only_permissions": allow_resource_only_permissions,
                "cmk_for_query_forced": cmk_for_query_forced,
                "daily_quota_gb": daily_quota_gb,
                "data_collection_rule_id": data_collection_rule_id,
                "immediate_data_purge_on_30_days_enabled": immediate_data_purge_on_30_days_enabled,
                "internet_ingestion_access_type": internet_ingestion_access_type,
                "internet_query_access_type": internet_query_access_type,
                "local_authentication_enabled": local_authentication_enabled,
                "reservation_capacity_in_gb_per_day": reservation_capacity_in_gb_per_day,
                "retention_in_days": retention_in_days,
                "sku": sku,
                "tags": tags,
                "identity": identity,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
