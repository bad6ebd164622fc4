"""Resource azurerm_monitor_activity_log_alert of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Action(Block):
    """The block `action`."""

    action_group_id: str
    webhook_properties: Mapping[str, str] | None = None


class CriteriaResourceHealth(Block):
    """The block `criteria.resource_health`."""

    current: Sequence[str] | None = None
    previous: Sequence[str] | None = None
    reason: Sequence[str] | None = None


class CriteriaServiceHealth(Block):
    """The block `criteria.service_health`."""

    events: Sequence[str] | None = None
    locations: Sequence[str] | None = None
    services: Sequence[str] | None = None


class Criteria(Block):
    """The block `criteria`."""

    category: str
    caller: str | None = None
    level: str | None = None
    levels: Sequence[str] | None = None
    operation_name: str | None = None
    recommendation_category: str | None = None
    recommendation_impact: str | None = None
    recommendation_type: str | None = None
    resource_group: str | None = None
    resource_groups: Sequence[str] | None = None
    resource_id: str | None = None
    resource_ids: Sequence[str] | None = None
    resource_provider: str | None = None
    resource_providers: Sequence[str] | None = None
    resource_type: str | None = None
    resource_types: Sequence[str] | None = None
    status: str | None = None
    statuses: Sequence[str] | None = None
    sub_status: str | None = None
    sub_statuses: Sequence[str] | None = None
    resource_health: CriteriaResourceHealth | None = None
    service_health: CriteriaServiceHealth | None = None


class MonitorActivityLogAlert(Resource):
    """The resource azurerm_monitor_activity_log_alert."""

    TYPE = "azurerm_monitor_activity_log_alert"

    description = StringAttribute()
    enabled = BooleanAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    scopes = ListAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        scopes: Sequence[str],
        criteria: Criteria,
        description: str | None = None,
        enabled: bool | None = None,
        tags: Mapping[str, str] | None = None,
        action: Sequence[Action] | None = None,
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
                "scopes": scopes,
                "criteria": criteria,
                "description": description,
                "enabled": enabled,
                "tags": tags,
                "action": action,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
