"""Resource azurerm_consumption_budget_subscription of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class FilterDimension(Block):
    """The block `filter.dimension`."""

    name: str
    values: Sequence[str]
    operator: str | None = None


class FilterTag(Block):
    """The block `filter.tag`."""

    name: str
    values: Sequence[str]
    operator: str | None = None


class Filter(Block):
    """The block `filter`."""

    dimension: Sequence[FilterDimension] | None = None
    tag: Sequence[FilterTag] | None = None


class Notification(Block):
    """The block `notification`."""

    operator: str
    threshold: float
    contact_emails: Sequence[str] | None = None
    contact_groups: Sequence[str] | None = None
    contact_roles: Sequence[str] | None = None
    enabled: bool | None = None
    threshold_type: str | None = None


class TimePeriod(Block):
    """The block `time_period`."""

    start_date: str
    end_date: str | None = None


class ConsumptionBudgetSubscription(Resource):
    """The resource azurerm_consumption_budget_subscription."""

    TYPE = "azurerm_consumption_budget_subscription"

    amount = NumberAttribute()
    etag = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    subscription_id = StringAttribute()
    time_grain = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        amount: float,
        name: str,
        subscription_id: str,
        notification: Sequence[Notification],
        time_period: TimePeriod,
        etag: str | None = None,
        time_grain: str | None = None,
        filter: Filter | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "amount": amount,
                "name": name,
                "subscription_id": subscription_id,
                "notification": notification,
                "time_period": time_period,
                "etag": etag,
                "time_grain": time_grain,
                "filter": filter,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
