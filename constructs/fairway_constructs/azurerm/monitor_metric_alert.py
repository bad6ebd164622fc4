"""Resource azurerm_monitor_metric_alert of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

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

    action_group_id: str
    webhook_properties: Mapping[str, str] | None = None


class ApplicationInsightsWebTestLocationAvailabilityCriteria(Block):
    """The block `application_insights_web_test_location_availability_criteria`."""

    component_id: str
    failed_location_count: float
    web_test_id: str


class CriteriaDimension(Block):
    """The block `criteria.dimension`."""

    name: str
    operator: str
    values: Sequence[str]


class Criteria(Block):
    """The block `criteria`."""

    aggregation: str
    metric_name: str
    metric_namespace: str
    operator: str
    threshold: float
    skip_metric_validation: bool | None = None
    dimension: Sequence[CriteriaDimension] | None = None


class DynamicCriteriaDimension(Block):
    """The block `dynamic_criteria.dimension`."""

    name: str
    operator: str
    values: Sequence[str]


class DynamicCriteria(Block):
    """The block `dynamic_criteria`."""

    aggregation: str
    alert_sensitivity: str
    metric_name: str
    metric_namespace: str
    operator: str
    evaluation_failure_count: float | None = None
    evaluation_total_count: float | None = None
    ignore_data_before: str | None = None
    skip_metric_validation: bool | None = None
    dimension: Sequence[DynamicCriteriaDimension] | None = None


class MonitorMetricAlert(Resource):
    """The resource azurerm_monitor_metric_alert."""

    TYPE = "azurerm_monitor_metric_alert"

    auto_mitigate = BooleanAttribute()
    description = StringAttribute()
    enabled = BooleanAttribute()
    frequency = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    scopes = ListAttribute()
    severity = NumberAttribute()
    tags = MapAttribute()
    target_resource_location = StringAttribute()
    target_resource_type = StringAttribute()
    window_size = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        scopes: Sequence[str],
        auto_mitigate: bool | None = None,
        description: str | None = None,
        enabled: bool | None = None,
        frequency: str | None = None,
        severity: float | None = None,
        tags: Mapping[str, str] | None = None,
        target_resource_location: str | None = None,
        target_resource_type: str | None = None,
        window_size: str | None = None,
        action: Sequence[Action] | None = None,
        application_insights_web_test_location_availability_criteria: ApplicationInsightsWebTestLocationAvailabilityCriteria | None = None,
        criteria: Sequence[Criteria] | None = None,
        dynamic_criteria: DynamicCriteria | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "scopes": scopes,
                "auto_mitigate": auto_mitigate,
                "description": description,
                "enabled": enabled,
                "frequency": frequency,
                "severity": severity,
                "tags": tags,
                "target_resource_location": target_resource_location,
                "target_resource_type": target_resource_type,
                "window_size": window_size,
                "action": action,
                "application_insights_web_test_location_availability_criteria": application_insights_web_test_location_availability_criteria,
                "criteria": criteria,
                "dynamic_criteria": dynamic_criteria,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
