"""Findings as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fairway_core.findings import Severity, format_finding
from fairway_runner.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.findings import Finding


def print_findings(findings: Sequence[Finding], subject: str) -> None:
    """Each as a person reads it, and how many there are."""
    for finding in findings:
        print(format_finding(finding), end="\n\n")
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    kinds = {"error": errors, "warning": warnings}
    counts = [counted(number, kind) for kind, number in kinds.items() if number]
    print(f"{subject}: {', '.join(counts) or 'nothing found'}")


def warn(finding: Finding) -> None:
    """A warning beside the output of a command."""
    print(format_finding(finding), file=sys.stderr, flush=True)
