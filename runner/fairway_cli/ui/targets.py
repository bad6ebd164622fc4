"""Targets as plain data and as a table."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_core.findings import Severity, UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.target import Target
    from fairway_runner.targets.lookup import KnownTarget

# Seconds for a target to say how many nodes it has; the list itself needs none of them.
_PATIENCE = 5.0


def target_facts(targets: Sequence[KnownTarget], *, ask: bool) -> list[dict[str, Any]]:
    """One mapping a target; `nodes_now` is null where the target was not asked, or is silent,
    `ready` false where it takes no jobs yet."""
    counts: list[int | None] = [None] * len(targets)
    if ask:
        with ThreadPoolExecutor(max_workers=16) as pool:
            counts = list(pool.map(lambda known: _nodes_now(known.target), targets))
    return [
        {**_facts(known.target), "nodes_now": count, "source": known.source}
        for known, count in zip(targets, counts, strict=True)
    ]


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


def _facts(target: Target) -> dict[str, Any]:
    size = None
    if target.vm_size:
        from fairway_core.catalog import vm_size

        with suppress(UserError):  # a size of one's own in fairway.yaml need not be known
            size = vm_size(target.vm_size)
    from fairway_runner.engines.engine import unready

    fabric = size.infiniband if size and size.rdma else None
    return {
        "name": target.name,
        "environment": target.environment or None,
        "engine": target.engine,
        "vm_size": target.vm_size or None,
        "region": target.region or None,
        "gpus": size.gpu.count if size and size.gpu else 0,
        "infiniband_gbps": fabric.gbps * fabric.adapters if fabric else None,
        "nodes_min": target.nodes.min,
        "nodes_max": target.nodes.max,
        "spot": target.spot,
        "price": target.price,
        "mounts": target.mounts,
        "ready": unready(target) is None,
    }


def _nodes_now(target: Target) -> int | None:
    from fairway_runner.engines.engine import engine_for

    try:
        return len(engine_for(target, _PATIENCE).nodes())
    except (UserError, ImportError):
        return None
