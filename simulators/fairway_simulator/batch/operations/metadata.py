"""A node's instance metadata service, as far as a task asks it, under `/simulator/metadata/`.

A real node finds it at 169.254.169.254; here FAIRWAY_METADATA_URL says where it is. The nodes
have no managed identity that could give tokens: what a resource file's identity stands for is
done by the node agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.router import answer

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation


def _require_header(request: Request) -> None:
    if request.headers.get("metadata", "").lower() != "true":
        raise ServiceError(400, "InvalidHeaderValue", "The header `Metadata: true` is missing.")


def compute(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """What the machine is."""
    _require_header(request)
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        priority = "Regular" if node.dedicated else "Spot"
        return answer({"name": node.name, "vmSize": node.pool.spec["vmSize"], "priority": priority})


def token(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """A token of the machine's identity, which it has not."""
    _require_header(request)
    core.account.node(pool_id, node_id)
    error = {"error": "invalid_request", "error_description": "Identity not found"}
    return answer(error, 400)


def events(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """What is going to happen to the machine: its Scheduled Events."""
    _require_header(request)
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        return answer({"DocumentIncarnation": len(node.events), "Events": node.events})


def approve(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """The machine is ready for an event, which happens now."""
    _require_header(request)
    wanted = {entry.get("EventId") for entry in request.json().get("StartRequests") or ()}
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if not any(event["EventId"] in wanted for event in node.events):
            raise ServiceError(400, "InvalidPropertyValue", "No such event.")
        core.fleet.lose(node, "preempted")
    return answer({})


_ROOT = "/simulator/metadata/{poolId}/{nodeId}/metadata"

OPERATIONS: list[Operation] = [
    ("GET", f"{_ROOT}/instance/compute", compute),
    ("GET", f"{_ROOT}/identity/oauth2/token", token),
    ("GET", f"{_ROOT}/scheduledevents", events),
    ("POST", f"{_ROOT}/scheduledevents", approve),
]
