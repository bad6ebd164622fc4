"""Resource azurerm_backup_policy_vm of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Backup(Block):
    """The block `backup`."""

    frequency: str
    time: str
    hour_duration: float | None = None
    hour_interval: float | None = None
    weekdays: Sequence[str] | None = None


class InstantRestoreResourceGroup(Block):
    """The block `instant_restore_resource_group`."""

    prefix: str
    suffix: str | None = None


class RetentionDaily(Block):
    """The block `retention_daily`."""

    count: float


class RetentionMonthly(Block):
    """The block `retention_monthly`."""

    count: float
    days: Sequence[float] | None = None
    include_last_days: bool | None = None
    weekdays: Sequence[str] | None = None
    weeks: Sequence[str] | None = None


class RetentionWeekly(Block):
    """The block `retention_weekly`."""

    count: float
    weekdays: Sequence[str]


class RetentionYearly(Block):
    """The block `retention_yearly`."""

    count: float
    months: Sequence[str]
    days: Sequence[float] | None = None
    include_last_days: bool | None = None
    weekdays: Sequence[str] | None = None
    weeks: Sequence[str] | None = None


class TieringPolicyArchivedRestorePoint(Block):
    """The block `tiering_policy.archived_restore_point`."""

    mode: str
    duration: float | None = None
    duration_type: str | None = None


class TieringPolicy(Block):
    """The block `tiering_policy`."""

    archived_restore_point: TieringPolicyArchivedRestorePoint


class BackupPolicyVm(Resource):
    """The resource azurerm_backup_policy_vm."""

    TYPE = "azurerm_backup_policy_vm"

    consistency_type = StringAttribute()
    id = StringAttribute()
    instant_restore_retention_days = NumberAttribute()
    name = StringAttribute()
    policy_type = StringAttribute()
    recovery_vault_name = StringAttribute()
    resource_group_name = StringAttribute()
    timezone = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        recovery_vault_name: str,
        resource_group_name: str,
        backup: Backup,
        consistency_type: str | None = None,
        instant_restore_retention_days: float | None = None,
        policy_type: str | None = None,
        timezone: str | None = None,
        instant_restore_resource_group: InstantRestoreResourceGroup | None = None,
        retention_daily: RetentionDaily | None = None,
        retention_monthly: RetentionMonthly | None = None,
        retention_weekly: RetentionWeekly | None = None,
        retention_yearly: RetentionYearly | None = None,
        tiering_policy: TieringPolicy | None = None,
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
                "recovery_vault_name": recovery_vault_name,
                "resource_group_name": resource_group_name,
                "backup": backup,
                "consistency_type": consistency_type,
                "instant_restore_retention_days": instant_restore_retention_days,
                "policy_type": policy_type,
                "timezone": timezone,
                "instant_restore_resource_group": instant_restore_resource_group,
                "retention_daily": retention_daily,
                "retention_monthly": retention_monthly,
                "retention_weekly": retention_weekly,
                "retention_yearly": retention_yearly,
                "tiering_policy": tiering_policy,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
