"""One thing that was looked at: what it is, what was found, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import Severity

if TYPE_CHECKING:
    from fairway_core.findings import Finding


@dataclass(frozen=True)
class Examined:
    """A thing with what was found of it, such as `Terraform` and `1.11.4`."""

    what: str
    found: str
    findings: tuple[Finding, ...] = ()

    @property
    def missing(self) -> bool:
        """Whether nothing can be deployed as it is."""
        return any(each.severity is Severity.ERROR for each in self.findings)
