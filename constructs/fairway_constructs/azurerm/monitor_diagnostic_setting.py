"""Resource azurerm_monitor_diagnostic_setting of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class EnabledLog(Block):
    """The block `enabled_log`."""

    category: str | None = None
    category_group: str | None = None


class EnabledMetric(Block):
    """The block `enabled_metric`."""

    category: str


class MonitorDiagnosticSetting(Resource):
    """The resource azurerm_monitor_diagnostic_setting."""

    TYPE = "azurerm_monitor_diagnostic_setting"

    eventhub_authorization_rule_id = StringAttribute()
    eventhub_name = StringAttribute()
    id = StringAttribute()
    log_analytics_destination_type = StringAttribute()
    log_analytics_workspace_id = StringAttribute()
    name = StringAttribute()
    partner_solution_id = StringAttribute()
    storage_account_id = StringAttribute()
    target_resource_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        target_resource_id: str,
        eventhub_authorization_rule_id: str | None = None,
        eventhub_name: str | None = None,
        log_analytics_destination_type: str | None = None,
        log_analytics_workspace_id: str | None = None,
        partner_solution_id: str | None = None,
        storage_account_id: str | None = None,
        enabled_log: Sequence[EnabledLog] | None = None,
        enabled_metric: Sequence[EnabledMetric] | None = None,
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
                "target_resource_id": target_resource_id,
                "eventhub_authorization_rule_id": eventhub_authorization_rule_id,
                "eventhub_name": eventhub_name,
                "log_analytics_destination_type": log_analytics_destination_type,
                "log_analytics_workspace_id": log_analytics_workspace_id,
                "partner_solution_id": partner_solution_id,
                "storage_account_id": storage_account_id,
                "enabled_log": enabled_log,
                "enabled_metric": enabled_metric,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
