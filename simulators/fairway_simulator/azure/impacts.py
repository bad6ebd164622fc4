"""Guest Health Reports, as the preview takes them and answers.

Stricter than is written where the documents leave something open: a report of a subscription
whose provider is not registered, or that is not onboarded, is refused for good.
Source: MicrosoftDocs/azure-compute-docs, articles/azure-impact-reporting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.errors import refused

if TYPE_CHECKING:
    from fairway_simulator.azure.resource_ids import ResourcePath

_TYPE = "microsoft.impact/workloadimpacts"
_REQUIRED = ("startDateTime", "impactCategory", "impactedResourceId")


@dataclass
class Impacts:
    """The reports by their paths; `registered` and `onboarded` say what the subscription is."""

    registered: bool = True
    onboarded: bool = True
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    _to_say: list[str] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)

    def says(self, *codes: str) -> None:
        """What is answered to a report: one code more each time that somebody looks."""
        self._to_say = list(codes)

    def answer(self, method: str, path: ResourcePath, body: Any) -> tuple[int, Any] | None:
        """The status and the body for a request; None where it is about something else."""
        if not path.type.startswith(_TYPE):
            return None
        if method == "PUT":
            return self._file(path, body or {})
        if path.type == f"{_TYPE}/insights":
            if self._to_say:
                self._said.append(self._to_say.pop(0))
            details = [{"additionalDetails": {"statusCode": code}} for code in self._said]
            return 200, {"value": [{"properties": each} for each in details]}
        found = self.reports.get(path.text)
        return (200, found) if found else refused(404, "NotFound", path.text)

    def _file(self, path: ResourcePath, body: dict[str, Any]) -> tuple[int, Any]:
        if not self.registered:
            message = "The subscription is not registered to use namespace 'Microsoft.Impact'."
            return refused(409, "MissingSubscriptionRegistration", message)
        if not self.onboarded:
            return refused(400, "BadRequest", "The subscription is not onboarded.")
        properties = body.get("properties") or {}
        missing = [name for name in _REQUIRED if not properties.get(name)]
        if missing:
            return refused(400, "InvalidRequest", f"{missing[0]} is missing")
        self.reports[path.text] = body
        return 201, {"id": path.text, **body}
