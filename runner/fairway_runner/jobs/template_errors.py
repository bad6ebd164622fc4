"""What a template refuses: a job that it cannot launch, said at the job file's line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from fairway_core.documents import Document


class Refusals:
    """Collects what a template says with `{{ refuse("options.min_nodes", "why", "hint") }}`."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._findings: list[Finding] = []

    def __call__(self, path: str, message: str, hint: str = "") -> str:
        """Notes a finding at the job's dotted `path`, or where it would stand; writes nothing."""
        location = self._document.location(tuple(path.split(".")))
        self._findings.append(Finding("unfit-job", message, hint, path, location=location))
        return ""

    def raise_if_any(self) -> None:
        """UserError with all that was refused."""
        if self._findings:
            raise UserError(self._findings)
