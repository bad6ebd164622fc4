"""The nodes of a target as plain data, and what is done to them, for who knows no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import engine_for

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.engine import Node


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
    """All of them, as `fairway nodes list --json` prints them; UserError where the target does not
    answer within `deadline` seconds."""
    return [node_facts(node) for node in engine_for(target, deadline).nodes()]


def node_actions(target: Target) -> tuple[str, ...]:
    """What can be done to a node of it."""
    return capabilities(target.engine).node_actions


def act_on_node(target: Target, action: str, node: str) -> None:
    """Does that; UserError where it cannot be."""
    engine_for(target).act_on_node(action, node)
