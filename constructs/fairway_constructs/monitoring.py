"""Monitoring: one workspace for all logs and metrics, and the recipients of alerts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from zlib import crc32

from fairway_constructs.azurerm import monitor_data_collection_rule as dcr
from fairway_constructs.azurerm.log_analytics_workspace import LogAnalyticsWorkspace
from fairway_constructs.azurerm.monitor_action_group import EmailReceiver, MonitorActionGroup
from fairway_constructs.azurerm.monitor_data_collection_rule_association import (
    MonitorDataCollectionRuleAssociation,
)
from fairway_constructs.cdk import Component
from fairway_constructs.scope import azure_scope_of
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_core.environment.services import LogDays
    from fairway_core.fields import Contacts
    from fairway_core.resource_ids import WorkspaceId


_SAMPLED_EVERY = 60  # seconds
_DESTINATION = "workspace"
_STREAMS = ("Microsoft-Perf", "Microsoft-Syslog")

# The Azure Monitor agent's names of counters on Linux.
_COUNTERS = (
    "Processor(*)\\% Processor Time",
    "Memory(*)\\% Used Memory",
    "Logical Disk(*)\\% Used Space",
    "Logical Disk(*)\\Disk Read Bytes/sec",
    "Logical Disk(*)\\Disk Write Bytes/sec",
    "Network(*)\\Total Bytes Received",
    "Network(*)\\Total Bytes Transmitted",
)

# Kubernetes' nodes and pods, their events, and their load; not the output of jobs, which is in
# their shared folder, and would cost more than everything else.
_OF_KUBERNETES = (
    "Microsoft-InsightsMetrics",
    "Microsoft-KubeEvents",
    "Microsoft-KubeNodeInventory",
    "Microsoft-KubePodInventory",
    "Microsoft-Perf",
)

# The agent. Source: Azure documentation, Container insights: data collection rule.
_SETTINGS = {"interval": "1m", "namespaceFilteringMode": "Off"}
_CONTAINER_INSIGHTS = dcr.DataSourcesExtension(
    name="ContainerInsightsExtension",
    extension_name="ContainerInsights",
    extension_json=json.dumps({"dataCollectionSettings": _SETTINGS}),
    streams=_OF_KUBERNETES,
)

# Nodes' own messages go to local0, see gpu_metrics.sh; others from the level warning on.
_OWN_FACILITY = "local0"
_FACILITIES = ("auth", "authpriv", "cron", "daemon", "kern", "syslog", "user")
_WARNINGS = ("Warning", "Error", "Critical", "Alert", "Emergency")
_SOURCES = dcr.DataSources(
    performance_counter=[
        dcr.DataSourcesPerformanceCounter(
            name="machine",
            streams=["Microsoft-Perf"],
            sampling_frequency_in_seconds=_SAMPLED_EVERY,
            counter_specifiers=_COUNTERS,
        )
    ],
    syslog=[
        dcr.DataSourcesSyslog(
            name="system",
            streams=["Microsoft-Syslog"],
            facility_names=_FACILITIES,
            log_levels=_WARNINGS,
        ),
        dcr.DataSourcesSyslog(
            name="own",
            streams=["Microsoft-Syslog"],
            facility_names=[_OWN_FACILITY],
            log_levels=["Info", "Notice", *_WARNINGS],
        ),
    ],
)


class IMonitoring(Component):
    """A new or existing Log Analytics workspace, to which services send their logs.

    >>> vault.diagnostic_settings(monitoring)
    """

    workspace_id: str


class Monitoring(IMonitoring):
    """A Log Analytics workspace, a rule for the data that machines send, and an action group.

    With `workspace_id` the workspace is an existing one in the same region. A machine sends data
    once `collect_metrics` is called for it and it has the agent, which `monitored=True` installs. A
    service sends its logs by its `diagnostic_settings`. Alerts are in `alerts`.

    >>> monitoring = Monitoring(stack, emails=["team@example.com"])
    >>> monitoring.collect_metrics(stack, "pair", resource_id=h100.id)
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "monitoring",
        *,
        emails: Contacts,
        retention_days: LogDays = 30,
        workspace_id: WorkspaceId | None = None,
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        self.workspace_id = (
            workspace_id
            or LogAnalyticsWorkspace(
                self,
                "workspace",
                name=azure.name("log_analytics_workspace"),
                **azure.common,
                sku="PerGB2018",
                retention_in_days=retention_days,
                # The agents and Azure's services use identities; nobody needs the workspace's keys.
                local_authentication_enabled=False,
            ).id
        )
        self.action_group_id = MonitorActionGroup(
            self,
            "alerts",
            name=azure.name("monitor_action_group"),
            resource_group_name=azure.resource_group,
            # Shown as the sender of each message; Azure accepts 12 characters, as a name has.
            short_name=azure.environment,
            email_receiver=[
                EmailReceiver(name=name, email_address=address, use_common_alert_schema=True)
                for name, address in zip(_receivers(emails), emails, strict=True)
            ],
            tags=azure.tags,
        ).id
        self._rule_id = dcr.MonitorDataCollectionRule(
            self,
            "machines",
            name=azure.name("monitor_data_collection_rule"),
            **azure.common,
            kind="Linux",
            data_sources=_SOURCES,
            destinations=self._to_workspace(),
            data_flow=[dcr.DataFlow(streams=_STREAMS, destinations=[_DESTINATION])],
        ).id

    @classmethod
    def from_id(cls, scope: Construct, id: str, workspace_id: str) -> IMonitoring:
        """Returns an existing workspace, for `diagnostic_settings`: nothing is created.

        `Monitoring(workspace_id=)` creates the rest, for machines and alerts.
        """
        found = IMonitoring(scope, id)
        parts_of("Log Analytics workspace", workspace_id)
        found.workspace_id = workspace_id
        return found

    def _to_workspace(self) -> dcr.Destinations:
        workspace = dcr.DestinationsLogAnalytics(
            name=_DESTINATION, workspace_resource_id=self.workspace_id
        )
        return dcr.Destinations(log_analytics=[workspace])

    def collect_metrics(self, scope: Construct, name: str, *, resource_id: str) -> None:
        """Configures what the agent on a VM, or on all VMs of a scale set, sends and where."""
        azure = azure_scope_of(scope)
        MonitorDataCollectionRuleAssociation(
            scope,
            f"{name}-is-watched",
            name=azure.name("monitor_data_collection_rule_association", name),
            target_resource_id=resource_id,
            data_collection_rule_id=self._rule_id,
        )

    def collect_kubernetes_metrics(self, scope: Construct, *, cluster_id: str) -> None:
        """Configures what the agent on a cluster's nodes, which its `oms_agent` installs, sends and
        where."""
        azure = azure_scope_of(scope)
        rule = dcr.MonitorDataCollectionRule(
            scope,
            "kubernetes-sends",
            name=azure.name("monitor_data_collection_rule", "kubernetes"),
            **azure.common,
            kind="Linux",
            data_sources=dcr.DataSources(extension=[_CONTAINER_INSIGHTS]),
            destinations=self._to_workspace(),
            data_flow=[dcr.DataFlow(streams=_OF_KUBERNETES, destinations=[_DESTINATION])],
        )
        MonitorDataCollectionRuleAssociation(
            scope,
            "kubernetes-is-watched",
            # The agent requires exactly this name.
            name="ContainerInsightsExtension",
            target_resource_id=cluster_id,
            data_collection_rule_id=rule.id,
        )


def _receivers(emails: Contacts) -> list[str]:
    """Returns a name for each address, so that adding one does not change the others; in an action
    group each is another. `a.b@c.org` and `a-b@c.org` differ by their checksums.

    >>> _receivers(["ann@c.org", "a.b@c.org", "a-b@c.org"])
    ['ann-c-org', 'a-b-c-org-41b7108f', 'a-b-c-org-cf38176c']
    """
    names = [re.sub(r"[^a-z0-9]+", "-", each.lower()) for each in emails]
    return [
        name if names.count(name) == 1 else f"{name}-{crc32(each.lower().encode()):08x}"
        for name, each in zip(names, emails, strict=True)
    ]
