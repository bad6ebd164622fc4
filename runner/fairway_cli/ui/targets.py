"""Targets as a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_core.findings import Severity, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.target import Target


def warn_of_unready(targets: Iterable[Target]) -> None:
    """Says on standard error which targets take no jobs yet, and why."""
    from fairway_runner.engines.engine import unready

    for target in targets:
        if (finding := unready(target)) is not None:
            print(format_finding(replace(finding, severity=Severity.WARNING)), file=sys.stderr)


def print_targets(facts: Sequence[dict[str, Any]]) -> None:
    """A line a target."""
    from fairway_cli.ui.tables import add_row, new_table, print_table
    from fairway_runner.engines.capabilities import runs_here

    rows = new_table("TARGET", "ENGINE", "SIZE", "GPUS", "INFINIBAND", "NODES", "MOUNTS", "FROM")
    for each in facts:
        limit = "" if runs_here(each["engine"]) else f"/{each['nodes_max']}"
        now = "?" if each["nodes_now"] is None else each["nodes_now"]
        count = f"{now}{limit}" if each["ready"] else "not ready"
        add_row(
            rows,
            each["name"],
            each["engine"],
            each["vm_size"] or "",
            f"{each['gpus']}" if each["gpus"] else "",
            f"{each['infiniband_gbps']} Gb/s" if each["infiniband_gbps"] else "",
            count,
            " ".join(f"{name}:{path}" for name, path in each["mounts"].items()),
            each["source"],
        )
    print_table(rows)
