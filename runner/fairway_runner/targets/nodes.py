"""The nodes of a target as plain data, and what is done to them, for who knows no engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import engine_for, is_addressed, unready
from fairway_runner.engines.outage import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target
    from fairway_runner.engines.engine import Node
    from fairway_runner.targets.lookup import KnownTarget


def node_facts(node: Node) -> dict[str, Any]:
    """One node; null where there is nothing to say."""
    return {
        "name": node.name,
        "state": node.state,
        "address": node.address or None,
        "run": node.run or None,
        "reason": node.reason or None,
        **node.facts,
    }


def nodes_of(target: Target, deadline: float) -> list[dict[str, Any]]:
    """All nodes, as `fairway nodes list --json` prints them; UserError for a silent target."""
    return [node_facts(node) for node in engine_for(target, deadline).nodes()]


def node_actions(target: Target) -> tuple[str, ...]:
    """Returns the possible actions on its nodes."""
    return capabilities(target.engine).node_actions


def act_on_node(target: Target, action: str, node: str) -> None:
    """Does that; UserError where it cannot be."""
    engine_for(target).act_on_node(action, node)


def target_facts(targets: Sequence[KnownTarget], *, ask: bool) -> list[dict[str, Any]]:
    """One mapping a target; `nodes_now` is null for one not asked or silent; see also `ready`."""
    counts: list[int | None] = [None] * len(targets)
    if ask:
        with ThreadPoolExecutor(max_workers=16) as pool:
            counts = list(pool.map(lambda known: _nodes_now(known.target), targets))
    return [
        {**_facts(known.target), "nodes_now": count, "source": known.source}
        for known, count in zip(targets, counts, strict=True)
    ]


def _facts(target: Target) -> dict[str, Any]:
    size = None
    if target.vm_size:
        from fairway_core.catalog import vm_size

        with suppress(UserError):  # a size of the user's in fairway.yaml need not be known
            size = vm_size(target.vm_size)
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
    if not is_addressed(target):  # to say so, its engine would import all of an SDK
        return None
    try:
        return len(engine_for(target, brief()).nodes())
    except UserError:
        return None
