"""Guest Health Reports: tells Azure that a VM's host is broken, and what becomes of it (preview).

Source: MicrosoftDocs/azure-compute-docs, articles/azure-impact-reporting.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.guest_health import final_answers, impact_category
from fairway_core.findings import UserError
from fairway_runner.live.management import NotAllowed, Refused

if TYPE_CHECKING:
    from fairway_core.machine import Machine
    from fairway_runner.live.management import Management

_REPORTS = "2023-02-01-preview"
_INSIGHTS = "2025-01-01-preview"
_PAUSE = 15.0  # seconds between two looks at the answer
_UNREGISTERED = ("MissingSubscriptionRegistration", "SubscriptionNotRegistered")


@dataclass(frozen=True)
class HealthReport:
    """What is wrong with the host of a machine; `category` is a short name of the catalogue."""

    machine: Machine
    category: str
    description: str

    def body(self) -> dict[str, Any]:
        """What Azure is sent. UserError for an unknown category."""
        facts = {"PhysicalHostName": self.machine.host, "VmUniqueId": self.machine.vm}
        return {
            "properties": {
                "startDateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "impactCategory": impact_category(self.category),
                "impactDescription": self.description,
                "impactedResourceId": self.machine.resource,
                "additionalProperties": {key: value for key, value in facts.items() if value},
            }
        }


def file_report(azure: Management, report: HealthReport) -> str:
    """Files it; answers with its id. UserError says what the subscription lacks for it."""
    name = str(uuid.uuid4())
    try:
        azure.put(_path(name), _REPORTS, report.body())
    except NotAllowed:
        message = "you may not file a Guest Health Report in this subscription"
        hint = "ask for the role Azure Impact Reporter on it"
        raise UserError.of("not-allowed", message, hint) from None
    except Refused as refused:
        raise _not_onboarded(azure, refused) from None
    return name


def follow_report(
    azure: Management, name: str, seconds: float, pause: float = _PAUSE
) -> str | None:
    """Azure's last word, or its latest after that many seconds; None where it has said nothing."""
    deadline = time.monotonic() + seconds
    while True:
        said = _answers(azure, name)
        last = next((each for each in said if each in final_answers()), None)
        if last is not None:
            return last
        left = deadline - time.monotonic()
        if left <= 0:
            return said[-1] if said else None
        time.sleep(min(pause, left))


def _answers(azure: Management, name: str) -> list[str]:
    insights = azure.list(f"{_path(name)}/insights", _INSIGHTS)
    details = ((each.get("properties") or {}).get("additionalDetails") or {} for each in insights)
    return [str(each["statusCode"]) for each in details if each.get("statusCode")]


def _path(name: str) -> str:
    return f"providers/Microsoft.Impact/workloadImpacts/{name}"


def _not_onboarded(azure: Management, refused: Refused) -> UserError:
    message = (
        f"Azure accepts no Guest Health Report from subscription {azure.subscription}: {refused}"
    )
    if refused.code in _UNREGISTERED:
        hint = "az provider register --namespace Microsoft.Impact --wait"
    else:
        hint = (
            "subscription and tenant must be onboarded to Guest Health Reporting (preview): "
            "ask your contact at Microsoft"
        )
    return UserError.of("not-onboarded", message, hint)
