"""Findings in SARIF 2.1.0 (OASIS), which GitHub's code scanning and editors read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_core import __version__
from fairway_core.checks.runner import all_checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.findings import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Returns the findings as one SARIF run; files are relative to the current folder."""
    summaries = {check.id: check.summary for check in all_checks()}
    ids = dict.fromkeys(finding.id for finding in findings)
    rules = [
        {"id": id_, "shortDescription": {"text": summaries.get(id_) or id_.replace("-", " ")}}
        for id_ in ids
    ]
    driver = {"name": "fairway", "version": __version__, "rules": rules}
    results = [_result(finding) for finding in findings]
    run = {"tool": {"driver": driver}, "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding) -> dict[str, Any]:
    text = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    found: dict[str, Any] = {
        "ruleId": finding.id,
        "level": str(finding.severity),
        "message": {"text": text},
    }
    if (location := finding.location) is not None:
        file, here = Path(location.file).absolute(), Path.cwd()
        inside = file.is_relative_to(here)
        uri = quote(file.relative_to(here).as_posix()) if inside else file.as_uri()
        region = {
            "startLine": location.line,
            "startColumn": location.column,
            "endColumn": location.column + location.length,
        }
        place = {"artifactLocation": {"uri": uri}, "region": region}
        found["locations"] = [{"physicalLocation": place}]
    return found
