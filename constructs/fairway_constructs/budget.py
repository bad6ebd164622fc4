"""A monthly budget for resource groups or tags, with mail at percentages of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm import consumption_budget_subscription as budgets
from fairway_constructs.cdk import Component, Lifecycle
from fairway_constructs.scope import subscription_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_core.environment.services import Amount, Percents
    from fairway_core.fields import Contacts

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
    ... # doctest: +SKIP
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
        place = self.place
        self.budget = budgets.ConsumptionBudgetSubscription(
            self,
            id,
            name=place.name("consumption_budget_subscription", *id.split("-")[1:]),
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
