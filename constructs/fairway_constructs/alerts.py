"""Alerts: the conditions that deserve a message, and the signals that reveal them; and budgets.

Each alert uses an existing signal: Azure's own metrics of a Batch account or a VM, or the data that
the Azure Monitor agent, its variant for Kubernetes and `gpu_metrics.sh` write into the workspace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fairway_agent.kubernetes.api import CONDITION
from fairway_constructs.azurerm import consumption_budget_subscription as budgets
from fairway_constructs.azurerm import monitor_metric_alert as metric_alert
from fairway_constructs.azurerm import monitor_scheduled_query_rules_alert_v2 as query_alert
from fairway_constructs.cdk import Component, Lifecycle
from fairway_constructs.scope import subscription_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.monitoring import Monitoring
    from fairway_core.environment.services import Amount, Percents
    from fairway_core.fields import Contacts, Number

# Azure's severities: 0 critical, 1 error, 2 warning, 3 informational.
_ERROR, _WARNING, _INFORMATIONAL = 1, 2, 3

_FULL_PERCENT = 85
_IDLE_PERCENT = 5


class _Metric(NamedTuple):
    """A platform metric and the condition of its alert; `window` is an ISO 8601 duration."""

    metric: str
    says: str
    severity: int
    window: str = "PT15M"
    operator: str = "GreaterThan"
    threshold: float = 0
    aggregation: str = "Average"


# Source: Azure Monitor supported metrics for Microsoft.Batch/batchAccounts. Node counts are
# sampled each minute: their average is the count, their total is not.
_BATCH = "Microsoft.Batch/batchAccounts"
_BROKEN = "Batch nodes are unusable: they cost money and run nothing"
_FAILED = "The start task failed on Batch nodes: they run nothing"
_TAKEN = "Azure took Spot nodes back: their tasks start again elsewhere"
_IDLE = "Batch nodes have been idle for an hour: let the pool scale down"
_BATCH_ALERTS = {
    "unusable-nodes": _Metric("UnusableNodeCount", _BROKEN, _ERROR),
    "start-task-failed": _Metric("StartTaskFailedNodeCount", _FAILED, _ERROR),
    "preempted-nodes": _Metric("PreemptedNodeCount", _TAKEN, _INFORMATIONAL, "PT5M"),
}
# The least of an hour: nodes are idle for minutes after each job.
_BATCH_IDLE = _Metric("IdleNodeCount", _IDLE, _WARNING, "PT1H", aggregation="Minimum")

# Source: Azure Monitor supported metrics for Microsoft.Compute/virtualMachines.
_MACHINE = "Microsoft.Compute/virtualMachines"
_DOWN = "A file server is down: nodes that mount it hang"
_MACHINE_DOWN = _Metric("VmAvailabilityMetric", _DOWN, _ERROR, "PT5M", "LessThan", 1)

# Source: Azure Monitor supported metrics for Microsoft.Logic/workflows.
_WORKFLOW = "Microsoft.Logic/workflows"


class Alerts(Component):
    """Alerts to the action group of `monitoring`, in any stack of its app.

    >>> alerts = Alerts(stack, monitoring=monitoring)
    >>> alerts.batch_account(account.id)
    """

    def __init__(self, scope: Construct, id: str = "alerts", *, monitoring: Monitoring) -> None:
        super().__init__(scope, id)
        self._action_group_id = monitoring.action_group_id
        self._workspace_id = monitoring.workspace_id

    def batch_account(self, account_id: str, *, kept: Number = 0) -> None:
        """Alerts on unusable, preempted and idle nodes, and on failed start tasks, in any pool.

        As many as pools that scale always keep, `kept`, may be idle. Azure counts the idle nodes of
        all pools at once: a pool whose kept nodes are busy leaves their number to the others.
        """
        for name, each in _BATCH_ALERTS.items():
            self._metric(f"batch-{name}", each, _BATCH, account_id)
        idle = _BATCH_IDLE._replace(threshold=kept)
        self._metric("batch-idle-nodes", idle, _BATCH, account_id)

    def file_server_down(self, name: str, machine_id: str) -> None:
        """Alerts if the VM of a file server is down."""
        self._metric(f"{name}-down", _MACHINE_DOWN, _MACHINE, machine_id)

    def schedule_failed(self, cluster: str, what: str, workflow_id: str) -> None:
        """Alerts if a cluster's schedule could not start or stop it, as `what` says."""
        says = f"The schedule of {cluster} could not {what} it"
        failed = _Metric("RunsFailed", says, _ERROR, aggregation="Total")
        self._metric(f"{cluster}-{what}-failed", failed, _WORKFLOW, workflow_id)

    def file_servers_full(self, folder: str) -> None:
        """Alerts on nearly full file systems below `folder` on any monitored machine."""
        query = f"""\
Perf
| where ObjectName == "Logical Disk" and CounterName == "% Used Space"
| where InstanceName startswith "{folder}"
| summarize Percent = max(CounterValue) by Computer, FileSystem = InstanceName"""
        self._query(
            "file-server-full",
            says=f"A file server's disks are more than {_FULL_PERCENT} % full",
            query=query,
            operator="GreaterThan",
            threshold=_FULL_PERCENT,
            dimensions=("Computer", "FileSystem"),
            window="PT15M",
        )

    def gpus_idle(self) -> None:
        """Alerts on nodes that were up for an hour with nearly idle GPUs."""
        query = """\
Syslog
| where Facility == "local0" and ProcessName == "fairway-gpu"
| parse SyslogMessage with "gpus=" Gpus:int " busiest=" Busiest:real *
| summarize Percent = max(Busiest), First = min(TimeGenerated), Last = max(TimeGenerated)
    by Computer
| where Last - First > 50m
| project Computer, Percent"""
        self._query(
            "gpus-idle",
            says=f"For an hour no GPU of a node was more than {_IDLE_PERCENT} % busy",
            query=query,
            operator="LessThanOrEqual",
            threshold=_IDLE_PERCENT,
            dimensions=("Computer",),
            window="PT1H",
        )

    def nodes_broken(self) -> None:
        """Alerts on Kubernetes nodes whose health check has found a fault.

        Azure's metric of node conditions, kube_node_status_condition, is documented only for
        Kubernetes' own conditions; this table has all that are True. Source:
        microsoft/Docker-Provider, in_kube_nodes.rb (getNodeInventoryRecord).
        """
        query = f"""\
KubeNodeInventory
| where Status has "{CONDITION}"
| summarize Faults = count() by Cluster = ClusterName, Computer"""
        self._query(
            "node-broken",
            says="GPUs, NVLink or InfiniBand of a node are broken: it takes no more jobs",
            query=query,
            operator="GreaterThan",
            threshold=0,
            measured="Faults",
            dimensions=("Cluster", "Computer"),
            window="PT15M",
        )

    def _metric(self, name: str, of: _Metric, namespace: str, resource_id: str) -> None:
        azure = self.azure
        metric_alert.MonitorMetricAlert(
            self,
            f"{name}-alert",
            name=azure.name("monitor_alert", name),
            resource_group_name=azure.resource_group,
            description=of.says,
            scopes=[resource_id],
            severity=of.severity,
            frequency="PT5M",
            window_size=of.window,
            criteria=[
                metric_alert.Criteria(
                    metric_namespace=namespace,
                    metric_name=of.metric,
                    aggregation=of.aggregation,
                    operator=of.operator,
                    threshold=of.threshold,
                )
            ],
            action=[metric_alert.Action(action_group_id=self._action_group_id)],
            tags=azure.tags,
        )

    def _query(
        self,
        name: str,
        *,
        says: str,
        query: str,
        operator: str,
        threshold: float,
        dimensions: tuple[str, ...],
        window: str,
        measured: str = "Percent",
    ) -> None:
        azure = self.azure
        query_alert.MonitorScheduledQueryRulesAlertV2(
            self,
            f"{name}-alert",
            name=azure.name("monitor_alert", name),
            **azure.common,
            description=says,
            scopes=[self._workspace_id],
            severity=_WARNING,
            evaluation_frequency="PT15M",
            window_duration=window,
            criteria=[
                query_alert.Criteria(
                    query=query,
                    time_aggregation_method="Maximum",
                    metric_measure_column=measured,
                    operator=operator,
                    threshold=threshold,
                    # One alert each, so that a lasting one does not hide the next.
                    dimension=[
                        query_alert.CriteriaDimension(name=each, operator="Include", values=["*"])
                        for each in dimensions
                    ],
                )
            ],
            auto_mitigation_enabled=True,
            action=query_alert.Action(action_groups=[self._action_group_id]),
            # The tables may not exist when the rule is created: no data has been sent yet.
            skip_query_validation=True,
        )


# A budget must start in the month of its creation, and its start can never change: so Terraform
# takes the current month when it creates the budget, and ignores it afterwards.
_THIS_MONTH = "${formatdate(\"YYYY-MM-'01T00:00:00Z'\", plantimestamp())}"


class Budget(Component):
    """A budget of the subscription for the total cost of the resources that are in one of the
    resource groups and have all of the tags; without groups it counts all resources with the tags.

    Separate budgets for each group could not detect when their total passes the amount. `amount` is
    in the currency of the subscription's bill; `alerts` are percentages of it. A second budget of
    an environment has an `id` of its own, `budget-NAME`.

    >>> Budget(stack, amount=50000, alerts=[50, 80, 100],
    ...        emails=["team@example.com"], resource_groups=["h100-rg-compute"])
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "budget",
        *,
        amount: Amount,
        alerts: Percents,
        emails: Contacts,
        resource_groups: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        self.budget = budgets.ConsumptionBudgetSubscription(
            self,
            id,
            name=azure.name("consumption_budget_subscription", *id.split("-")[1:]),
            subscription_id=subscription_of(self),
            amount=amount,
            time_grain="Monthly",
            time_period=budgets.TimePeriod(start_date=_THIS_MONTH),
            filter=budgets.Filter(
                dimension=[
                    budgets.FilterDimension(name="ResourceGroupName", values=list(resource_groups))
                ]
                if resource_groups
                else None,
                tag=[
                    budgets.FilterTag(name=name, values=[value])
                    for name, value in (tags or {}).items()
                ]
                or None,
            ),
            notification=[
                budgets.Notification(
                    enabled=True,
                    operator="GreaterThanOrEqualTo",
                    threshold=percent,
                    threshold_type="Actual",
                    contact_emails=list(emails),
                )
                for percent in alerts
            ],
            lifecycle=Lifecycle(ignore_changes=["time_period"]),
        )
