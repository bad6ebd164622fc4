"""Resource azurerm_monitor_scheduled_query_rules_alert_v2 of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Action(Block):
    """The block `action`."""

    action_groups: Sequence[str] | None = None
    custom_properties: Mapping[str, str] | None = None
    email_subject: str | None = None


class CriteriaDimension(Block):
    """The block `criteria.dimension`."""

    name: str
    operator: str
    values: Sequence[str]


class CriteriaFailingPeriods(Block):
    """The block `criteria.failing_periods`."""

    minimum_failing_periods_to_trigger_alert: float
    number_of_evaluation_periods: float


class Criteria(Block):
    """The block `criteria`."""

    operator: str
    query: str
    threshold: float
    time_aggregation_method: str
    metric_measure_column: str | None = None
    resource_id_column: str | None = None
    dimension: Sequence[CriteriaDimension] | None = None
    failing_periods: CriteriaFailingPeriods | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class MonitorScheduledQueryRulesAlertV2(Resource):
    """The resource azurerm_monitor_scheduled_query_rules_alert_v2."""

    TYPE = "azurerm_monitor_scheduled_query_rules_alert_v2"

    auto_mitigation_enabled = BooleanAttribute()
    created_with_api_version = StringAttribute()
    description = StringAttribute()
    display_name = StringAttribute()
    enabled = BooleanAttribute()
    evaluation_frequency = StringAttribute()
    id = StringAttribute()
    is_a_legacy_log_analytics_rule = BooleanAttribute()
    is_workspace_alerts_storage_configured = BooleanAttribute()
    location = StringAttribute()
    mute_actions_after_alert_duration = StringAttribute()
    name = StringAttribute()
    query_time_range_override = StringAttribute()
    resource_group_name = StringAttribute()
    scopes = ListAttribute()
    severity = NumberAttribute()
    skip_query_validation = BooleanAttribute()
    tags = MapAttribute()
    target_resource_types = ListAttribute()
    window_duration = StringAttribute()
    workspace_alerts_storage_enabled = BooleanAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        evaluation_frequency: str,
        location: str,
        name: str,
        resource_group_name: str,
        scopes: Sequence[str],
        severity: float,
        window_duration: str,
        criteria: Sequence[Criteria],
        auto_mitigation_enabled: bool | None = None,
        description: str | None = None,
        display_name: str | None = None,
        enabled: bool | None = None,
        mute_actions_after_alert_duration: str | None = None,
        query_time_range_override: str | None = None,
        skip_query_validation: bool | None = None,
        tags: Mapping[str, str] | None = None,
        target_resource_types: Sequence[str] | None = None,
        workspace_alerts_storage_enabled: bool | None = None,
        action: Action | None = None,
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
                "evaluation_frequency": evaluation_frequency,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "scopes": scopes,
                "severity": severity,
                "window_duration": window_duration,
                "criteria": criteria,
                "auto_mitigation_enabled": auto_mitigation_enabled,
                "description": description,
                "display_name": display_name,
                "enabled": enabled,
                "mute_actions_after_alert_duration": mute_actions_after_alert_duration,
                "query_time_range_override": query_time_range_override,
                "skip_query_validation": skip_query_validation,
                "tags": tags,
                "target_resource_types": target_resource_types,
                "workspace_alerts_storage_enabled": workspace_alerts_storage_enabled,
                "action": action,
                "identity": identity,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
