"""Who is told what: alerts on nodes and file servers, and a budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model, matching, rule
from fairway_core.fields import Days, Emails
from fairway_core.resource_ids import WorkspaceId

# Azure's own ranges: days that a workspace keeps logs, and alerts of one budget.
_RETENTION_DAYS = (30, 730)
_MOST_BUDGET_ALERTS = 5
_MOST_PERCENT = 1000


def _retention(days: int) -> int:
    least, most = _RETENTION_DAYS
    if not least <= days <= most:
        raise FieldError(
            f"logs can be kept for {least}d to {most}d, not {days}d",
            f"the nearest is {min(max(days, least), most)}d",
        )
    return days


_ALERTS = "for example [50, 80, 100]"


def _alerts(percents: tuple[int, ...]) -> tuple[int, ...]:
    if list(percents) != sorted(set(percents)):
        raise FieldError("alerts are percentages in rising order, each once", _ALERTS)
    if percents[0] < 1 or percents[-1] > _MOST_PERCENT:
        raise FieldError(f"an alert is at 1 to {_MOST_PERCENT} percent of `monthly:`", _ALERTS)
    return percents


class Monitoring(Model, defer_build=True):
    """Logs and metrics of nodes in one workspace, and alerts; for Kubernetes, of nodes, pods and
    events."""

    emails: Annotated[Emails, Field(min_length=1, json_schema_extra={"minItems": 1})]
    """Addresses that alerts are sent to."""
    retention: Annotated[Days, AfterValidator(_retention)] = _RETENTION_DAYS[0]
    """How long to keep logs, from 30d to 730d."""
    workspace: WorkspaceId | None = None
    """The id of an existing Log Analytics workspace in the environment's region; its owner decides
    how long it keeps logs."""

    @rule
    def _its_owner_keeps_the_logs(self) -> None:
        if self.workspace and "retention" in self.model_fields_set:
            raise FieldError(
                "the owner of an existing workspace decides how long it keeps logs",
                "leave it out",
                ("retention",),
            )


class Budget(Model, defer_build=True):
    """The most that the environment is to cost per month, and at which percentages to send mail.

    It counts all resource groups of the environment, and what Azure makes for it elsewhere. Nodes
    of Batch pools with `mode: UserSubscription` have a second budget of the same amount, because
    Azure cannot add them to the first.
    """

    monthly: float = Field(ge=1)
    """The amount per month, in `currency`."""
    currency: Annotated[
        str, matching("[A-Z]{3}", "`{}` is not a currency", "write its ISO code, for example USD")
    ] = "USD"
    """The currency of the subscription's bill."""
    alerts: Annotated[tuple[int, ...], AfterValidator(_alerts)] = Field(
        default=(50, 80, 100), min_length=1, max_length=_MOST_BUDGET_ALERTS
    )
    """The percentages of the amount at which to send mail."""
    emails: Emails = ()
    """Mail addresses to alert; by default those of `monitoring:`."""


def budget_contacts(budget: Budget, monitoring: Monitoring | None) -> tuple[str, ...]:
    """To whom the budget's alerts go; FieldError where it would be to nobody."""
    contacts = budget.emails or (monitoring.emails if monitoring else ())
    if not contacts:
        raise FieldError(
            "a budget without contacts notifies no one",
            "add `emails:` to `budget:`, or a `monitoring:` section",
            ("budget",),
        )
    return contacts
