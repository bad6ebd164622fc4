"""The simulator's own operations, under `/simulator/`: a node's instance metadata service, and the
commands of `bin/batch-simulator`.

A real node finds that service at 169.254.169.254; here FAIRWAY_METADATA_URL has its address. The
nodes have no managed identity that could issue tokens: the node agent itself fetches resource files
that name an identity. A command carries the account's key as `Authorization: Key <key>`.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, get_args

from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.wire.bodies import ServiceError, invalid_property
from fairway_simulator.batch.wire.router import answer, done
from fairway_simulator.faults import Fault, Kind

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.pool import Node
    from fairway_simulator.batch.wire.router import Operation
    from fairway_simulator.http import Answer, Request


def _node(core: Core, request: Request, pool_id: str, node_id: str) -> Node:
    if request.headers.get("metadata", "").lower() != "true":
        raise ServiceError(400, "InvalidHeaderValue", "The header `Metadata: true` is missing.")
    return core.account.node(pool_id, node_id)


def compute(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    """Report a node's machine: name, size, and regular or Spot."""
    node = _node(core, request, pool_id, node_id)
    priority = "Regular" if node.dedicated else "Spot"
    return answer({"name": node.name, "vmSize": node.pool.spec["vmSize"], "priority": priority})


def token(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    """Refuse a token, as the machine has no identity."""
    _node(core, request, pool_id, node_id)
    error = {"error": "invalid_request", "error_description": "Identity not found"}
    return answer(error, 400)


def events(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    """List the Scheduled Events of a node's machine."""
    found = _node(core, request, pool_id, node_id).events
    return answer({"DocumentIncarnation": len(found), "Events": found})


def approve(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    """Approve a Scheduled Event, which then happens at once."""
    node = _node(core, request, pool_id, node_id)
    wanted = {entry.get("EventId") for entry in request.document.get("StartRequests") or ()}
    if not any(event["EventId"] in wanted for event in node.events):
        raise ServiceError(400, "InvalidPropertyValue", "No such event.")
    core.fleet.lose(node, "preempted")
    return answer({})


def _authorize(core: Core, request: Request) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme != "Key" or not hmac.compare_digest(key, core.authenticator.key):
        raise ServiceError(401, "Unauthorized", "The request does not carry the account's key.")


def add_fault(core: Core, request: Request) -> Answer:
    """Turn a fault on; its fields are those of `Fault`."""
    _authorize(core, request)
    checks.one_of(request.document, "kind", get_args(Kind))
    try:
        core.faults.add(Fault(**request.document))
    except (TypeError, re.error) as error:
        raise ServiceError(400, "InvalidRequestBody", str(error)) from None
    return done(201)


def clear_faults(core: Core, request: Request) -> Answer:
    _authorize(core, request)
    core.faults.clear()
    return done(200)


def act(core: Core, request: Request, pool_id: str, node_id: str, action: str) -> Answer:
    """`preempt` (with `notice` seconds), `lose` or `restore` a node."""
    _authorize(core, request)
    node = core.account.node(pool_id, node_id)
    if action == "preempt":
        core.fleet.preempt(node, float(request.document.get("notice") or 0))
    elif action == "lose":
        core.fleet.lose(node, "unknown")
    elif action == "restore":
        core.fleet.restore(node)
    else:
        raise invalid_property("action", action, "preempt, lose or restore")
    return done(200)


_ROOT = "/simulator/metadata/{poolId}/{nodeId}/metadata"

OPERATIONS: list[Operation] = [
    ("POST", "/simulator/faults", add_fault),
    ("DELETE", "/simulator/faults", clear_faults),
    ("POST", "/simulator/pools/{poolId}/nodes/{nodeId}/{action}", act),
    ("GET", f"{_ROOT}/instance/compute", compute),
    ("GET", f"{_ROOT}/identity/oauth2/token", token),
    ("GET", f"{_ROOT}/scheduledevents", events),
    ("POST", f"{_ROOT}/scheduledevents", approve),
]
