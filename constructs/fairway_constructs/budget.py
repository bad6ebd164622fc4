"""A monthly budget for some resource groups, with mail at percentages of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.consumption_budget_subscription import (
    ConsumptionBudgetSubscription,
    Filter,
    FilterDimension,
    FilterTag,
    Notification,
    TimePeriod,
)
from fairway_constructs.cdk import Component, Lifecycle
from fairway_constructs.unique_name import client_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement

# A budget must start in the month in which it is made, and may never start anew: so Terraform
# takes the month when it makes it, and does not look at it again.
_THIS_MONTH = "${formatdate(\"YYYY-MM-'01T00:00:00Z'\", plantimestamp())}"


class Budget(Component):
    """A budget of the subscription for the total cost of the named resource groups.

    One budget a group could not tell when all of them together pass the amount. `amount` is
    in the currency of the subscription's bill; `alerts` are percentages of it. With `only_own` it
    counts of these groups what has the environment's tag.

    >>> Budget(stack, place=place, amount=50000, alerts=[50, 80, 100],
    ...        emails=["team@example.com"], resource_groups=["h100-rg-compute"])
    ... # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "budget",  # noqa: A002
        *,
        place: Placement,
        amount: float,
        alerts: Sequence[int],
        emails: Sequence[str],
        resource_groups: Sequence[str],
        only_own: bool = False,
    ) -> None:
        super().__init__(scope, id)
        subscription_id = client_config(self).subscription_id
        self.budget = ConsumptionBudgetSubscription(
            self,
            "budget",
            name=place.name("consumption_budget_subscription"),
            subscription_id=f"/subscriptions/{subscription_id}",
            amount=amount,
            time_grain="Monthly",
            time_period=TimePeriod(start_date=_THIS_MONTH),
            filter=Filter(
                dimension=[FilterDimension(name="ResourceGroupName", values=list(resource_groups))],
                tag=[FilterTag(name="environment", values=[place.environment])]
                if only_own
                else None,
            ),
            notification=[
                Notification(
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
